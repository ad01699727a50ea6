"""Language models whose layers attend in their own ways: causality, caches, bounds, company."""

from itertools import pairwise

import pytest
import torch
from torch.nn.functional import pad

from regard.attention import PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice
from regard.decoding import Beam, Limits, Sentence, greedy
from regard.errors import SettingError, UnknownChoice
from regard.models import LanguageSpec, build_language_model
from regard.models.language.cache_sizes import cache_size_note, layer_keys
from regard.models.stepper import BOS, PAD
from tests.assertions import assert_close

SMALL = {"d_model": 16, "n_heads": 2, "d_hidden": 24, "n_layers": 2, "max_len": 64}
BLOCKS, SLOTS = Choice("blocks", {"size": 5}), Choice("memory_compressed", {"stride": 3})
STACKS = {
    "lmlml": {"n_layers": 5, "attends": (BLOCKS, SLOTS)},
    "slots alone": {"attends": (SLOTS,)},
    "stride of two": {"attends": (Choice("memory_compressed", {"stride": 2}), BLOCKS)},
    "sliding window": {"attends": (Choice("sliding_window", {"size": 4}),)},
    "rotary window": {
        "attends": (Choice("sliding_window", {"size": 3}), Choice("full")),
        "positions": Choice("rotary"),
    },
    "shaw window": {
        "attends": (Choice("sliding_window", {"size": 3}),),
        "relation": Choice("shaw", {"clip": 2}),
    },
    "big bird": {"attends": (Choice("big_bird", {"block": 2, "n_random": 1}),)},
    "big bird without chance": {"attends": (Choice("big_bird", {"block": 3, "n_random": 0}),)},
    "random links": {"attends": (Choice("random_links", {"block": 2}), Choice("full"))},
    "branches": {"layer": "weighted_branches", "attends": (BLOCKS, SLOTS)},
}

NEED_MORE = ("structural",)
"""Relations that ask for a tree."""


def model(**changes):
    spec = LanguageSpec(**{**SMALL, **changes})
    return build_language_model(spec, n_tokens=29).double().eval()


def tokens(*shape):
    return torch.randint(4, 29, shape)


def ragged(*lengths):
    rows = tokens(len(lengths), max(lengths))
    for row, length in zip(rows, lengths, strict=True):
        row[length:] = PAD
    return rows


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_no_token_changes_what_stands_before_it_at_any_offset(stack):
    writer, row = model(**stack), tokens(1, 13)
    here = writer.read(row)
    for place in range(13):
        other = row.clone()
        other[0, place] = 4 + (other[0, place] - 3) % 25
        there = writer.read(other)
        assert torch.equal(there[:, :place], here[:, :place])
        assert not torch.equal(there[:, place], here[:, place])


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_writing_on_from_any_prefix_is_the_whole_pass(stack):
    writer, row = model(**stack), tokens(2, 11)
    whole = writer(row)
    for start in range(7):
        state, parts = writer.start(row[:, :start]), []
        for place in range(start, 11):
            logits, state = writer.step(state, row[:, place : place + 1])
            parts.append(logits)
        assert_close(f"logits after {start}", torch.cat(parts, 1), whole[:, start:])


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("cuts", [(0, 14), (0, 1, 3, 7, 14), (0, 4, 5, 11, 14)])
def test_steps_of_several_tokens_are_the_whole_pass(stack, cuts):
    writer, row = model(**stack), tokens(2, 14)
    state, parts = writer.start(row[:, :0]), []
    for begin, end in pairwise(cuts):
        logits, state = writer.step(state, row[:, begin:end])
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), writer(row))


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_rows_of_unequal_length_go_on_as_each_would_alone(stack):
    writer, source, target = model(**stack), ragged(6, 3, 6, 1), tokens(4, 4)
    state, parts = writer.start(pad(source, (0, 2))), []
    for cut in (target[:, :1], target[:, 1:3], target[:, 3:]):
        logits, state = writer.step(state, cut)
        parts.append(logits)
    for i, n in enumerate((6, 3, 6, 1)):
        row = torch.cat([source[i, :n], target[i]])[None]
        assert_close("logits", torch.cat(parts, 1)[i], writer(row)[0, n:])


WEIGHING = [
    *(("score", name) for name in SCORES),
    *(("select", name) for name in SELECTIONS),
    *(("relation", name) for name in RELATIONS if name not in NEED_MORE),
]


@pytest.mark.parametrize(
    "attends", sorted(name for name, part in PATTERNS.items() if part.is_movable)
)
@pytest.mark.parametrize(
    ("link", "name", "positions"),
    [
        (link, name, positions)
        for link, name in WEIGHING
        for positions in ("sinusoidal", "rotary")
        if positions != "rotary" or getattr(SCORES.get(name), "bears_rotation", True)
    ],
)
def test_whatever_weighs_the_keys_rows_of_unequal_length_go_on_as_alone(
    link, name, positions, attends
):
    stack = {
        link: Choice(name),
        "positions": Choice(positions),
        "attends": (Choice(attends, {"size": 4} if "w" in attends else {}),),
    }
    writer, source, target = model(**stack), ragged(6, 3, 6, 1), tokens(4, 2)
    for each in writer.parameters():
        torch.nn.init.normal_(each, std=0.3)
    logits, _ = writer.step(writer.start(source), target)
    for i, n in enumerate((6, 3, 6, 1)):
        row = torch.cat([source[i, :n], target[i]])[None]
        assert_close("logits", logits[i], writer(row)[0, n:])


@pytest.mark.parametrize("name", ["lmlml", "sliding window", "big bird"])
def test_a_state_goes_on_in_several_rows_a_sentence_and_drops_some(name):
    writer, source, target = model(**STACKS[name]), ragged(6, 3), tokens(4, 5)
    state = writer.branch(writer.start(source), torch.tensor([[0, 0], [0, 0]]))
    _, state = writer.step(state, target[:, :2])
    rows = torch.tensor([1, 0, 3, 3])
    state = writer.branch(state, torch.tensor([[1, 0], [1, 1]]))
    _, state = writer.step(state, target[rows, 2:3])
    stay = torch.tensor([2, 3])
    logits, _ = writer.step(writer.select(state, stay), target[rows[stay], 3:])
    for row, old in enumerate(rows[stay].tolist()):
        alone = torch.cat([source[1, :3], target[old]])[None]
        assert_close("logits", logits[row], writer(alone)[0, 6:])


@pytest.mark.parametrize("name", ["lmlml", "big bird"])
def test_a_search_says_the_same_in_any_company(name):
    writer, source = model(**STACKS[name], tied="none"), ragged(6, 3, 1)
    alone = [
        greedy(writer, source[i : i + 1, :n], max_tokens=7)[0] for i, n in enumerate((6, 3, 1))
    ]
    assert greedy(writer, source, max_tokens=7) == alone
    sentences = [Sentence(source[i, :n].tolist()) for i, n in enumerate((6, 3, 1))]
    search = Beam(width=3, limits=Limits(max_tokens=6))
    together = [found[0].tokens for found in search(writer, sentences)]
    assert together == [search(writer, [one])[0][0].tokens for one in sentences]


def test_what_is_kept_is_bounded_and_said():
    writer, state = model(**STACKS["lmlml"]), None
    state = writer.start(tokens(1, 2))
    for length in range(3, 41):
        _, state = writer.step(state, tokens(1, 1))
        slots = 1 + length // 3
        assert state.kept == (length % 5, slots + length % 3) * 2 + (length % 5,)
    windowed = model(**STACKS["sliding window"])
    _, state = windowed.step(windowed.start(tokens(1, 50)), tokens(1, 1))
    assert state.kept == (4, 4)
    birds = model(**STACKS["big bird without chance"])
    _, state = birds.step(birds.start(tokens(1, 50)), tokens(1, 1))
    assert state.kept == (3 + 3, 3 + 3), "the first block and the one before the next"
    random = model(**STACKS["big bird"])
    assert random.start(tokens(1, 50)).kept == (50, 50), "a later row may draw any block"


@pytest.mark.parametrize("name", [name for name in STACKS if name != "branches"])
@pytest.mark.parametrize("length", [1, 5, 6, 23])
def test_what_will_be_kept_is_known_beforehand(name, length):
    spec = LanguageSpec(**{**SMALL, **STACKS[name]})
    state = model(**STACKS[name]).start(tokens(1, length))
    layers = layer_keys(spec)
    assert tuple(layer.count(length) for layer in layers) == state.kept
    most = [max(layer.count(n) for n in range(length + 1)) for layer in layers]
    assert [layer.most(length) for layer in layers] == most
    said = ", ".join(f"{layer.attends} {n}" for layer, n in zip(layers, most, strict=True))
    assert cache_size_note(spec, length).startswith(
        f"while it writes, a row of {length} tokens keeps at most"
    )
    assert cache_size_note(spec, length).endswith(f"keys by layer: {said}")


def test_no_more_than_two_positions_wait_for_a_slot_of_three():
    writer = model(**STACKS["slots alone"])
    for length in range(1, 9):
        past = writer.start(tokens(1, length)).caches[0]
        assert past.waiting.length == length % 3
        assert past.slots.length == 1 + length // 3
        assert past.length == length


def test_blocks_as_long_as_the_row_are_full_attention():
    torch.manual_seed(3)
    blocks = model(attends=(Choice("blocks", {"size": 20}),))
    torch.manual_seed(3)
    full, row = model(), tokens(2, 12)
    assert_close("states", blocks.read(row), full.read(row))


def test_slots_of_one_token_and_identity_kernels_are_full_attention():
    torch.manual_seed(3)
    slots = model(attends=(Choice("memory_compressed", {"stride": 1}),))
    full = model()
    full.load_state_dict(slots.state_dict(), strict=False)
    with torch.no_grad():
        for layer in slots.layers:
            memory = layer.attention.chain.memory
            for kernel in (memory.C_K, memory.C_V):
                kernel.copy_(torch.eye(kernel.shape[-1], dtype=kernel.dtype).expand_as(kernel))
    row = tokens(2, 11)
    assert_close("states", slots.read(row), full.read(row))


def test_a_compressed_layer_learns_nothing_from_its_unfinished_slot():
    writer, row = model(attends=(SLOTS,), n_layers=1, norm="pre_norm"), tokens(1, 9)
    x = writer.embedding(row).detach().requires_grad_()
    attention = writer.layers[0].attention
    from regard.models.language_model import CAUSAL

    for last in range(3, 9):
        (grad,) = torch.autograd.grad(attention(x, mask=CAUSAL).context[0, last].sum(), x)
        seen = (last + 1) // 3 * 3
        assert grad[0, 1:seen].any(1).all()
        # the query itself is there, and it alone
        others = [place for place in range(seen, 9) if place != last]
        assert not grad[0, others].any()


def test_training_and_evaluation_are_one_function_without_dropout():
    writer, row = model(**STACKS["big bird"], dropout=0.0), tokens(2, 12)
    assert torch.equal(writer.train().read(row), writer.eval().read(row))


def test_the_paper_s_stack_is_local_compressed_local_compressed_local():
    ways = (Choice("blocks", {"size": 256}), Choice("memory_compressed", {"stride": 3}))
    spec = LanguageSpec(**{**SMALL, "n_layers": 5, "attends": ways})
    built = build_language_model(spec, n_tokens=29)
    names = [layer.attention.chain.memory is not None for layer in built.layers]
    assert names == [False, True, False, True, False]
    assert built.layers[0].attention.chain.pattern.size == 256
    assert built.layers[1].attention.chain.memory.stride == 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [("linformer", "the future included"), ("global_tokens", "the first tokens would see")],
)
def test_what_would_see_the_future_is_refused(name, reason):
    with pytest.raises(SettingError, match=f"model.attends: '{name}' cannot write: .*{reason}"):
        model(attends=(Choice(name),))
    with pytest.raises(SettingError, match="must not see the future; leave is_causal"):
        model(attends=(Choice("big_bird", {"is_causal": False}),))


def test_an_empty_list_and_an_unknown_way_are_refused():
    with pytest.raises(SettingError, match=r"at least one way to attend"):
        LanguageSpec(attends=())
    said = "model.attends: There is no 'block' here. Did you mean 'blocks'"
    with pytest.raises(UnknownChoice, match=said):
        LanguageSpec(attends=(Choice("block"),))


def test_a_lesson_reads_what_a_search_reads():
    writer, source, target = model(**STACKS["lmlml"]), ragged(5, 3), tokens(2, 4)
    hidden, _ = writer.loss_inputs(source, target)
    begun = torch.cat([torch.full((2, 1), BOS), target[:, :-1]], 1)
    logits, _ = writer.step(writer.start(source), begun)
    assert_close("logits", logits, writer.output(hidden))
    assert_close("logits", writer(source, begun), logits)
