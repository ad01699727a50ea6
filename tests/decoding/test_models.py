"""Searches over every kind of model: caches, batches and ensembles change no answer."""

from itertools import cycle

import pytest
import torch

from regard.attention.caches import STORAGE_STEP
from regard.data.subword_kinds import BOS, EOS, PAD
from regard.decoding import (
    Beam,
    Ensemble,
    Greedy,
    Limits,
    NoPenalty,
    NoRepeatedNgrams,
    Sampling,
    Sentence,
    fast_model,
)
from regard.decoding.cpu.packed_linear import PackedLinear
from regard.errors import SettingError
from regard.models import Stepper
from tests.assertions import assert_close
from tests.decoding.writers import (
    SPECS,
    WITHOUT_SELF_ATTENTION,
    Table,
    decode_all,
    language_model,
    other_model,
    transformer,
)

LIMITS = Limits(max_tokens=4)
MODELS = {
    **{f"transformer {name}": (lambda name=name: transformer(name)) for name in SPECS},
    **{
        f"language model {name}": (lambda name=name: language_model(name))
        for name in ("post_norm", "pre_norm", "rotary", "shaw", "additive", "sparsemax")
    },
    **{name: (lambda name=name: other_model(name)) for name in WITHOUT_SELF_ATTENTION},
}
SEARCHES = {
    "greedy": Greedy(limits=LIMITS),
    "beam": Beam(width=3, n_best=3, limits=LIMITS),
    "beam with a rule": Beam(width=2, n_best=2, limits=LIMITS, rules=[NoRepeatedNgrams(2)]),
    "sampling": Sampling(n_samples=2, top_p=0.9, limits=LIMITS),
}
PAIRS = [
    *zip(MODELS, cycle(["beam", "sampling"]), strict=False),
    *(("transformer post_norm", search) for search in ("greedy", "beam with a rule")),
    *(("language model pre_norm", search) for search in ("greedy", "beam with a rule")),
]


def sentences(n, *, longest=6):
    """Sentences of many lengths, each with its own seed."""
    rows = torch.randint(4, 11, (n, longest)).tolist()
    return [Sentence(row[: 1 + i % longest], seed=i) for i, row in enumerate(rows)]


def logits_at_once(model, sentence, tokens):
    """The logits after each token, by one pass over everything."""
    source = torch.tensor([list(sentence.source)])
    read = torch.tensor([[BOS, *tokens]])
    if hasattr(model, "encode"):
        return model(source, read)[0]
    return model(torch.cat([source, read], 1))[0, source.shape[1] :]


@pytest.mark.parametrize("name", MODELS)
def test_what_a_search_says_of_its_answer_is_what_a_whole_pass_says(name):
    model = MODELS[name]()
    assert isinstance(model, Stepper)
    asked = sentences(3)
    # a beam reorders, drops and widens its rows; a wrong cache would show in the numbers
    for sentence, found in zip(asked, SEARCHES["beam"](model, asked), strict=True):
        for h in found:
            own = logits_at_once(model, sentence, h.tokens).log_softmax(-1)
            written = [*h.tokens, *([EOS] if h.has_ended else [])]
            want = own[torch.arange(len(written)), torch.tensor(written)]
            got = torch.tensor(h.token_log_probabilities, dtype=torch.float64)
            assert_close("log-probabilities", got, want.detach(), atol=2e-6)


@pytest.mark.parametrize(("name", "search"), PAIRS)
def test_an_answer_does_not_depend_on_its_batch(name, search):
    model, asked = MODELS[name](), sentences(6)
    together = SEARCHES[search](model, asked)
    order = torch.randperm(6).tolist()
    moved = decode_all(model, [asked[i] for i in order], SEARCHES[search], batch_tokens=8)
    for got, want in zip(moved, (together[i] for i in order), strict=True):
        assert [h.tokens for h in got] == [h.tokens for h in want]
        assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)


@pytest.mark.parametrize("name", [*MODELS][::3])
def test_a_beam_of_one_is_greedy_for_every_model(name):
    model, asked = MODELS[name](), sentences(2)
    narrow = Beam(width=1, limits=LIMITS)(model, asked)
    for (one,), (other,) in zip(narrow, SEARCHES["greedy"](model, asked), strict=True):
        assert one.tokens == other.tokens
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-6)


@pytest.mark.parametrize("name", ["transformer post_norm", "language model rotary"])
@pytest.mark.parametrize("search", SEARCHES)
def test_an_ensemble_of_a_model_with_itself_is_the_model(name, search):
    model, asked = MODELS[name](), sentences(4)
    one, three = SEARCHES[search](model, asked), SEARCHES[search](Ensemble([model] * 3), asked)
    for got, want in zip(three, one, strict=True):
        assert [h.tokens for h in got] == [h.tokens for h in want]
        assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)


def test_an_ensemble_says_the_mean_of_its_models_probabilities():
    models, source = [Table(6, 1), Table(6, 2)], [4, 5]
    search = Beam(width=3, n_best=3, penalty=NoPenalty(), limits=Limits(max_tokens=3))
    for h in search(Ensemble(models), [Sentence(source)])[0]:
        written = [*h.tokens, *([EOS] if h.has_ended else [])]
        want = []
        for t, token in enumerate(written):
            each = [m.logits(source, written[:t]).softmax(-1)[token] for m in models]
            want.append(float(torch.stack(each).mean().log()))
        assert h.token_log_probabilities == pytest.approx(want, abs=1e-5)


def test_models_of_two_vocabularies_are_no_ensemble():
    with pytest.raises(SettingError, match=r"vocabularies of \[6, 7\] tokens"):
        Greedy()(Ensemble([Table(6), Table(7)]), [Sentence([4])])
    with pytest.raises(SettingError, match="expected at least one model"):
        Ensemble([])


@pytest.mark.parametrize("name", ["transformer post_norm", "language model post_norm"])
def test_an_empty_source_has_an_answer_too(name):
    model = MODELS[name]()
    asked = [Sentence([]), Sentence([5, 6, 7])]
    together = decode_all(model, asked, SEARCHES["beam"])
    assert all(h.log_probability > -100 for row in together for h in row)
    alone = SEARCHES["beam"](model, asked[:1])
    assert [h.tokens for h in alone[0]] == [h.tokens for h in together[0]]
    assert decode_all(model, [], SEARCHES["beam"]) == []


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", ["post_norm", "rotary", "shaw"])
def test_a_fast_model_is_the_same_model(name, dtype, atol):
    model = transformer(name).to(dtype)
    ours = fast_model(model, torch.device("cpu"))
    # oneDNN packs single precision only
    assert isinstance(ours.output, PackedLinear) == (dtype is torch.float32)
    source, target = torch.randint(4, 11, (2, 5)), torch.randint(4, 11, (2, 6))
    source[1, 3:] = PAD
    assert_close("logits", ours(source, target), model(source, target), atol=atol)
    assert ours.encoder[0].attention.chain.explain(8).path == (
        model.encoder[0].attention.chain.explain(8).path
    )
    assert model.output.weight is model.target.E.weight


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in [*MODELS][::3]),
        ("transformer post_norm", torch.float64),
        ("language model rotary", torch.float64),
    ],
)
def test_a_fast_model_gives_the_answers_of_the_model(name, dtype):
    model, asked = MODELS[name]().to(dtype), sentences(2)
    # long enough that the caches outgrow their first room
    search = Beam(
        width=2, n_best=2, limits=Limits(min_tokens=STORAGE_STEP + 1, max_tokens=STORAGE_STEP + 2)
    )
    for got, want in zip(
        search(fast_model(model, torch.device("cpu")), asked), search(model, asked), strict=True
    ):
        assert [h.tokens for h in got] == [h.tokens for h in want]
        assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)


def test_hooks_of_a_model_still_run_after_a_fast_copy_was_made():
    model, heard = transformer("post_norm"), []
    for name, each in (("fast", fast_model(model, torch.device("cpu"))), ("model", model)):
        part = each.decoder[0]
        part.register_forward_hook(lambda *_, name=name: heard.append(name))
        each(torch.tensor([[4, 5]]), torch.tensor([[4, 5]]))
    # the fast one never asks who listens
    assert heard == ["model"]
