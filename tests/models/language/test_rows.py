"""Rows of source and target: what is read, what is asked, and how a search begins."""

from copy import deepcopy

import pytest
import torch

from regard.attention.capture import captured
from regard.choices import Choice
from regard.decoding import greedy
from regard.decoding.sentences import padded_tokens
from regard.errors import SettingError
from regard.layers.mixtures.experts import imbalance, listening
from regard.models import ExpertsSpec, LanguageSpec, build_language_model
from regard.models.language.rows import NOWHERE, ROWS
from regard.models.language.token_maps import by_token
from regard.models.stepper import BOS, EOS, PAD, UNK
from tests.assertions import assert_close

SMALL = {"d_model": 16, "n_heads": 2, "d_hidden": 24, "n_layers": 2, "max_len": 64}
SOURCE = torch.tensor([[7, 8, EOS], [9, EOS, PAD]])
TARGET = torch.tensor([[5, EOS, PAD], [6, 4, EOS]])


def model(**changes):
    built = build_language_model(LanguageSpec(**{**SMALL, **changes}), n_tokens=29)
    return built.double().eval()


def test_of_all_tokens_every_one_but_the_first_is_asked_for():
    read, gold = ROWS["separated"].joined(SOURCE, TARGET, asks_all=True)
    assert read.tolist() == [[7, 8, EOS, BOS, 5, PAD], [9, EOS, BOS, 6, 4, PAD]]
    assert gold.tolist() == [[8, EOS, BOS, 5, EOS, PAD], [EOS, BOS, 6, 4, EOS, PAD]]


def test_a_running_text_has_no_end_and_begins_once():
    read, gold = ROWS["running"].joined(SOURCE, TARGET, asks_all=False)
    assert read.tolist() == [[BOS, 7, 8, PAD, PAD, PAD], [BOS, 9, 6, PAD, PAD, PAD]]
    assert gold.tolist() == [[PAD, PAD, 5, PAD, PAD, PAD], [PAD, 6, 4, PAD, PAD, PAD]]
    _, everything = ROWS["running"].joined(SOURCE, TARGET, asks_all=True)
    assert everything.tolist() == [[7, 8, 5, PAD, PAD, PAD], [9, 6, 4, PAD, PAD, PAD]]


def test_a_running_text_without_a_source_is_asked_for_from_its_first_word():
    nothing = torch.tensor([[EOS]])
    read, gold = ROWS["running"].joined(nothing, torch.tensor([[5, 6, EOS]]), asks_all=False)
    assert read.tolist() == [[BOS, 5, PAD, PAD]]
    assert gold.tolist() == [[5, 6, PAD, PAD]]
    prefix, first = ROWS["running"].search_start(nothing)
    assert prefix.tolist() == [[PAD]]
    assert first.tolist() == [BOS]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("attends", ["full", "sliding_window", "blocks", "memory_compressed"])
def test_a_map_knows_how_many_keys_each_query_may_see(rows, attends):
    maps = model(rows=rows, attends=(Choice(attends),)).maps(SOURCE[:1], TARGET[:1, :2])
    for one in (one for layers in maps.values() for one in layers):
        may = one.mask.visible(one.places)
        seen = may.expand(*may.shape[:-2], *one.shape[-2:]).reshape(-1, *one.shape[-2:])[0].sum(-1)
        assert one.allowed().tolist() == seen.tolist()
        assert ((one.dense()[0, 0] > 0).sum(-1) <= one.allowed()).all()
        last = slice(one.shape[-2] - 1, None)
        assert one.allowed(last).tolist() == seen[-1:].tolist()


def test_the_loss_over_all_tokens_is_another_one_and_only_in_training():
    every, some = model(asks="all", dropout=0.0), model(asks="target", dropout=0.0)
    n_asked = [
        int((one.train().loss_inputs(SOURCE, TARGET).gold != PAD).sum()) for one in (every, some)
    ]
    assert n_asked == [10, 5]
    assert torch.equal(
        every.eval().loss_inputs(SOURCE, TARGET).gold, some.loss_inputs(SOURCE, TARGET).gold
    )


def test_a_continued_text_begins_with_its_source_and_ends_once():
    read, gold = ROWS["continued"].joined(SOURCE, TARGET, asks_all=False)
    assert read.tolist() == [[7, 8, 5, PAD, PAD, PAD], [9, 6, 4, PAD, PAD, PAD]]
    assert gold.tolist() == [[PAD, 5, EOS, PAD, PAD, PAD], [6, 4, EOS, PAD, PAD, PAD]]
    _, everything = ROWS["continued"].joined(SOURCE, TARGET, asks_all=True)
    assert everything.tolist() == [[8, 5, EOS, PAD, PAD, PAD], [6, 4, EOS, PAD, PAD, PAD]]


def test_a_continued_text_without_a_source_begins_with_the_begin_token():
    rows, sources = ROWS["continued"], torch.tensor([[EOS, PAD], [9, EOS]])
    read, gold = rows.joined(sources, torch.tensor([[5, EOS], [6, EOS]]), asks_all=False)
    assert read.tolist() == [[BOS, 5, PAD, PAD], [9, 6, PAD, PAD]]
    assert gold.tolist() == [[5, EOS, PAD, PAD], [6, EOS, PAD, PAD]]
    prefix, first = rows.search_start(sources)
    assert (prefix.tolist(), first.tolist()) == ([[PAD, PAD]] * 2, [BOS, 9])
    laid = rows.layout(sources, torch.tensor([[BOS, 5], [BOS, 6]]))
    assert laid.row.tolist() == [[BOS, 5, PAD, PAD], [9, 6, PAD, PAD]]
    assert laid.predicting_positions.tolist() == [[0, 1], [0, 1]]
    assert laid.target.tolist() == [[0, 1], [NOWHERE, 1]]
    assert laid.source.tolist() == [[NOWHERE, NOWHERE], [0, NOWHERE]]


@pytest.mark.parametrize("rows", ["running", "continued"])
@pytest.mark.parametrize("attends", [("full",), ("blocks", "memory_compressed")])
def test_a_text_goes_on_in_a_search_as_it_does_in_a_lesson(rows, attends):
    writer = model(rows=rows, attends=tuple(map(Choice, attends)))
    source, target = SOURCE, torch.tensor([[5, 11, 12, EOS], [6, 4, 13, EOS]])
    hidden, gold = writer.loss_inputs(source, target)
    given = torch.cat([torch.full((2, 1), BOS), target[:, :2]], 1)
    logits, _ = writer.step(writer.start(source), given)
    for row in range(2):
        # loss inputs begin where the loss does
        assert gold[row, :3].tolist() == target[row, :3].tolist()
        assert_close("logits", logits[row], writer.output(hidden)[row, :3])
    alone = [greedy(writer, s[None, s != PAD], max_tokens=6)[0] for s in source]
    assert greedy(writer, source, max_tokens=6) == alone


def test_dropped_words_are_read_as_unknown_and_only_in_training(monkeypatch):
    writer, seen = model(word_dropout=0.5, dropout=0.0), []
    embed = writer.embedding.forward
    monkeypatch.setattr(
        writer.embedding, "forward", lambda tokens: seen.append(tokens) or embed(tokens)
    )
    row = torch.randint(4, 29, (4, 50))
    row[:, 40:] = PAD
    writer.eval().read(row)
    writer.train().read(row)
    assert torch.equal(seen[0], row)
    changed = seen[1] != row
    assert (seen[1][changed] == UNK).all()
    assert not changed[:, 40:].any()
    assert 50 < int(changed.sum()) < 110


def test_experts_that_are_asked_unequally_cost_something_in_training():
    writer = model(experts=ExpertsSpec(count=4, used=1, balance=0.5), dropout=0.0)
    assert writer.loss_inputs(SOURCE, TARGET).extra is None
    loss_inputs = writer.train().loss_inputs(SOURCE, TARGET)
    cost = loss_inputs.extra(torch.zeros(2, 6))
    read, _ = ROWS["separated"].joined(SOURCE, TARGET, asks_all=False)
    with listening(writer) as heard:
        writer.read(read)
    is_real = (read != PAD).flatten()
    assert 0 < int(is_real.sum()) < is_real.numel()
    layers = [imbalance(one.shares[is_real], one.chosen[is_real]) for one in heard]
    assert len(layers) == 2
    assert_close("cost", cost, 0.5 * 5 * sum(layers), atol=1e-5)
    cost.backward()
    assert all(layer.feed_forward.gate.weight.grad.any() for layer in writer.layers)


def test_more_padding_costs_no_experts_anything():
    writer = model(experts=ExpertsSpec(count=4, used=1, balance=0.5), dropout=0.0).train()
    longer = torch.nn.functional.pad(TARGET, (0, 9), value=PAD)
    costs = [
        writer.loss_inputs(SOURCE, target).extra(torch.zeros(1, 1)) for target in (TARGET, longer)
    ]
    assert_close("cost", costs[1], costs[0], atol=1e-5)


def test_a_model_with_experts_is_copied_after_a_lesson():
    writer = model(experts=ExpertsSpec(count=3)).train()
    writer.loss_inputs(SOURCE, TARGET)
    again = deepcopy(writer).eval()
    assert torch.equal(again.read(SOURCE), writer.eval().read(SOURCE))


def test_experts_stand_only_where_a_plain_feed_forward_could():
    for feed_forward in ("gated", "none"):
        with pytest.raises(SettingError, match=f"an expert is no feed-forward '{feed_forward}'"):
            LanguageSpec(**SMALL, experts=ExpertsSpec(), feed_forward=feed_forward)
    with pytest.raises(SettingError, match="layers of kind 'weighted_branches' have no"):
        LanguageSpec(**SMALL, experts=ExpertsSpec(), layer="weighted_branches")


@pytest.mark.parametrize("balance", [-1.0, float("nan"), float("inf")])
def test_what_unequal_experts_cost_is_a_finite_number(balance):
    with pytest.raises(SettingError, match=f"finite number of at least 0, got {balance}"):
        ExpertsSpec(balance=balance)


def test_experts_stand_in_the_layers_that_were_named():
    writer = model(experts=ExpertsSpec(count=3, layers=(2,)))
    assert [hasattr(layer.feed_forward, "gate") for layer in writer.layers] == [False, True]
    with pytest.raises(SettingError, match="there are 2 layers, but layers names number 3"):
        LanguageSpec(**SMALL, experts=ExpertsSpec(layers=(3,)))
    with pytest.raises(SettingError, match=r"used must lie between 1 and count \(2\), got 3"):
        ExpertsSpec(count=2, used=3)


@pytest.mark.parametrize("rows", ["running", "continued"])
def test_the_maps_of_a_text_that_goes_on_give_the_end_of_the_source_nothing(rows):
    writer = model(rows=rows)
    source, target = torch.tensor([[7, 8, EOS]]), torch.tensor([[BOS, 5, 6]])
    maps = writer.maps(source, target)
    cross, own = maps["cross"][0].dense(), maps["decoder"][0].dense()
    assert cross.shape == own.shape == (1, 2, 3, 3)
    assert not cross[..., 2].any()
    assert_close("rows", cross.sum(-1) + own.sum(-1), torch.ones(1, 2, 3))
    assert not maps["encoder"][0].dense()[..., 2, :].any()
    # the row that says the first token is that of the source's last one
    assert_close("row", cross[..., 0, :2], maps["encoder"][0].dense()[..., 1, :2])
    state, given = writer.start(source), target
    assert_close("logits", writer.step(state, given)[0], writer(source, target))


def test_the_maps_of_a_row_are_source_target_and_what_lies_between():
    writer = model(attends=(Choice("full"), Choice("memory_compressed")))
    maps = writer.maps(torch.tensor([[7, 8, 9, EOS]]), torch.tensor([[BOS, 5, 6]]))
    shapes = {kind: [one.shape for one in layers] for kind, layers in maps.items()}
    assert shapes == {
        "sequence": [(1, 2, 7, 7)] * 2,
        "encoder": [(1, 2, 4, 4)] * 2,
        "decoder": [(1, 2, 3, 3)] * 2,
        "cross": [(1, 2, 3, 4)] * 2,
    }
    for cross, own in zip(maps["cross"], maps["decoder"], strict=True):
        assert_close("rows", cross.dense().sum(-1) + own.dense().sum(-1), torch.ones(1, 2, 3))
    longer = writer.maps(torch.tensor([[7]]), torch.tensor([[8, 9, EOS, BOS, 5, 6]]))
    assert_close("cut", maps["cross"][0].dense()[..., :1], longer["cross"][0].dense()[..., 3:, :])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    "changes",
    [
        {"attends": (Choice("sliding_window", {"size": 2}), Choice("memory_compressed"))},
        {"attends": (Choice("big_bird", {"block": 2, "n_random": 1}), Choice("full"))},
        {"score": Choice("location"), "select": Choice("hard")},
        *({"relation": Choice(name)} for name in ("shaw", "bucketed", "linear_bias")),
        *({"select": Choice(name)} for name in ("local_monotonic", "local_predictive", "top_k")),
        {"layer": "weighted_branches"},
    ],
    ids=str,
)
def test_every_row_of_a_batch_has_the_maps_that_it_has_alone(rows, changes):
    writer = model(rows=rows, **changes)
    for weights in writer.parameters():
        torch.nn.init.normal_(weights, std=0.5)
    source = [[7, 8, EOS], [9, EOS], [5, 6, 7, 8, 9, 10, 11, EOS], [EOS]]
    target = [[BOS, 5], [BOS, 6, 4, 5, 5], [BOS, 7, 5, 6, 7, 8], [BOS]]
    together = writer.maps(*(padded_tokens(side, torch.device("cpu")) for side in (source, target)))
    for i, (read, given) in enumerate(zip(source, target, strict=True)):
        alone = writer.maps(torch.tensor([read]), torch.tensor([given]))
        for kind, layers in alone.items():
            for found, wanted in zip(together[kind], layers, strict=True):
                q, k = wanted.shape[-2:]
                assert_close(f"{kind} {i}", found.dense()[i, :, :q, :k], wanted.dense()[0])
                assert not found.dense()[i, :, :q, k:].any()
                assert found.allowed(example=i)[:q].tolist() == wanted.allowed().tolist()


@pytest.mark.parametrize("rows", ROWS)
def test_a_long_text_has_maps_by_location_though_some_of_its_tokens_stand_nowhere(rows):
    writer = model(rows=rows, score=Choice("location"))
    text = torch.randint(4, 29, (1, 60))
    text[0, -1] = EOS
    for layers in writer.maps(text, torch.cat([torch.tensor([[BOS]]), text[:, :40]], 1)).values():
        assert all((one.dense().sum(-1) <= 1 + 1e-9).all() for one in layers)


def test_the_tokens_of_a_slot_share_its_weight():
    writer, row = model(attends=(Choice("memory_compressed"),)), torch.randint(4, 29, (1, 8))
    with captured(writer) as found:
        writer.read(row)
    for slots in found.values():
        tokens, weights = by_token(slots).dense(), slots.dense()
        assert tokens.shape == (1, 2, 8, 8)
        for j in range(6):
            want = weights[..., 1 + j // 3] / 3
            want[..., :2] = 1.0 if j == 0 else 0.0
            assert_close("weights", tokens[..., j], want)
        assert not tokens[..., 6:].any(), "their slot is not complete"
        assert_close("rows", tokens.sum(-1), torch.ones(1, 2, 8))
    assert by_token(writer.maps(row, row)["cross"][0]).columns == "keys"


@pytest.mark.parametrize("rows", ROWS)
def test_a_lesson_holds_what_is_asked_and_nothing_else(rows):
    writer = model(rows=rows, asks="target", dropout=0.0)
    source = torch.cat([SOURCE, torch.full((2, 4), PAD)], 1)
    read, asked = ROWS[rows].joined(source, TARGET, asks_all=False)
    hidden, gold = writer.train().loss_inputs(source, TARGET)
    assert gold.shape == TARGET.shape
    assert_close("hidden", hidden[gold != PAD], writer.read(read)[asked != PAD])
    assert torch.equal(gold[gold != PAD], asked[asked != PAD])
