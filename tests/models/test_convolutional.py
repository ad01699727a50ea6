"""The convolutional model: its equations, causality, padding, caches, searches, maps."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, pad
from torch.utils._python_dispatch import TorchDispatchMode

from regard.choices import Choice
from regard.data.subword_kinds import EOS
from regard.decoding import Beam, Greedy, Limits, Sampling, Sentence, fast_model
from regard.errors import LengthError, SettingError
from regard.inspecting.capture import attention_of
from regard.models import Model, Stepper, Trainable
from regard.models.convolutional.network import build_convolutional
from regard.models.convolutional.spec import DILATIONS, ConvolutionalSpec
from regard.models.stepper import BOS, PAD
from regard.models.trainable import shifted
from tests.assertions import assert_close, assert_same_gradients
from tests.decoding.writers import decided, decode_all
from tests.oracles.convolution import logits as loops

V = 29
SMALL = ConvolutionalSpec(d_model=8, n_encoder_layers=2, n_decoder_layers=3, max_len=32)
SPECS = {
    "paper": SMALL,
    "doubling": replace(SMALL, dilations="doubling"),
    "wide": replace(SMALL, kernel=5),
    "untied": replace(SMALL, tied="none"),
    "tied output": replace(SMALL, tied="output"),
    "sinusoidal": replace(SMALL, positions=Choice("sinusoidal")),
    "no positions": replace(SMALL, positions=Choice("none")),
    "additive": replace(SMALL, score=Choice("additive", {"d_hidden": 5})),
    "general": replace(SMALL, score=Choice("general")),
    "sparsemax": replace(SMALL, select=Choice("sparsemax")),
    "local_monotonic": replace(SMALL, select=Choice("local_monotonic", {"half_width": 2})),
    "local_predictive": replace(SMALL, select=Choice("local_predictive", {"half_width": 2})),
}
LIMITS = Limits(max_tokens=4)
SEARCHES = {
    "beam": Beam(width=3, n_best=3, limits=LIMITS),
    "sampling": Sampling(n_samples=2, top_p=0.9, limits=LIMITS),
}


def _model(spec, n=V):
    model = build_convolutional(spec, n_source_tokens=n, n_target_tokens=n).double().eval()
    # numbers large enough that every part shows
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def _tokens(*shape):
    return torch.randint(4, V, shape)


def _sentences(n, *, longest=6):
    rows = torch.randint(4, 11, (n, longest)).tolist()
    return [Sentence(row[: 1 + i % longest], seed=i) for i, row in enumerate(rows)]


@pytest.mark.parametrize("name", ["paper", "doubling", "wide", "untied"])
def test_it_is_the_equations_in_loops_with_all_gradients(name):
    spec = replace(SPECS[name], tied=SPECS[name].tied if name == "untied" else "output")
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 5)
    source[1, 4:], target[1, 3:] = PAD, PAD
    grows = DILATIONS[spec.dilations]
    parameters = {**dict(model.named_parameters()), "output.weight": model.output.weight}
    got, want, seen = model(source, target), [], model.maps(source, target)["cross"]
    for b, (n, t) in enumerate([(7, 5), (4, 3)]):
        rows, weights = loops(
            source[b, :n].tolist(),
            target[b, :t].tolist(),
            parameters,
            kernel=spec.kernel,
            encoder_dilations=[grows.at(i) for i in range(spec.n_encoder_layers)],
            decoder_dilations=[grows.at(i) for i in range(spec.n_decoder_layers)],
        )
        want.append(rows)
        for layer, one in zip(seen, weights, strict=True):
            assert_close("weights", layer.dense()[b, 0, :t, :n], one.detach())
    pieces = torch.cat([got[0], got[1, :3]]), torch.cat(want)
    assert_close("logits", pieces[0], pieces[1].detach())
    assert_same_gradients(*pieces, parameters)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_later_token_changes_nothing_before_it(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 5)
    other = target.clone()
    other[:, 3] = 4 + (other[:, 3] - 3) % 25
    assert torch.equal(model(source, other)[:, :3], model(source, target)[:, :3])
    assert not torch.equal(model(source, other)[:, 3], model(source, target)[:, 3])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_padding_changes_no_logit_and_no_gradient(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 5)
    longer, further = pad(source, (0, 4), value=PAD), pad(target, (0, 3), value=PAD)
    got, want = model(longer, further)[:, :5], model(source, target)
    assert_close("logits", got, want.detach())
    assert_same_gradients(got, want, dict(model.named_parameters()))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_stepping_with_a_cache_equals_the_whole_pass(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 6)
    source[1, 4:] = PAD
    whole, state, parts = model(source, target), model.start(source), []
    for cut in (target[:, :1], target[:, 1:4], target[:, 4:]):
        logits, state = model.step(state, cut)
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), whole)


@pytest.mark.parametrize("name", ["paper", "local_monotonic"])
def test_rows_that_branch_share_their_sentence_and_go_on_from_their_parents(name):
    model, source, target = _model(SPECS[name]), _tokens(2, 7), _tokens(2, 2)
    source[0, 5:] = PAD
    _, state = model.step(model.start(source), target)
    state = model.branch(state, torch.tensor([[0, 0, 0], [0, 0, 0]]))
    first, second = _tokens(6, 1), _tokens(6, 2)
    _, state = model.step(state, first)
    parents = torch.tensor([[2, 0, 1], [1, 1, 0]])
    state = model.branch(state, parents)
    assert len(state.source.valid) == 2, "the source is kept once for each sentence"
    logits, state = model.step(state, second)
    rows = torch.tensor([2, 0, 1, 4, 4, 3])
    written = torch.cat([target.repeat_interleave(3, 0), first[rows], second], 1)
    assert_close("logits", logits, model(source.repeat_interleave(3, 0), written)[:, -2:])
    state = model.select(state, torch.tensor([3, 4, 5]))
    logits, _ = model.step(state, second[:3])
    written = torch.cat([written[3:], second[:3]], 1)
    assert_close("logits", logits, model(source[1:].expand(3, -1), written)[:, -2:])


def test_the_cache_does_not_grow_with_the_text():
    model = _model(SPECS["doubling"])
    state = model.start(_tokens(2, 7))
    for _ in range(3):
        _, state = model.step(state, _tokens(2, 4))
    assert [past.shape[1] for past in state.rows] == [2, 4, 8]
    assert state.length == 12


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_a_beam_says_of_its_answer_is_what_a_whole_pass_says(spec):
    model, asked = decided(_model(spec, n=11)), _sentences(3)
    for sentence, found in zip(asked, SEARCHES["beam"](model, asked), strict=True):
        for h in found:
            read = torch.tensor([[BOS, *h.tokens]])
            own = model(torch.tensor([list(sentence.source)]), read)[0].log_softmax(-1)
            written = [*h.tokens, *([EOS] if h.has_ended else [])]
            want = own[torch.arange(len(written)), torch.tensor(written)]
            got = torch.tensor(h.token_log_probabilities, dtype=torch.float64)
            assert_close("log-probabilities", got, want.detach(), atol=2e-6)


@pytest.mark.parametrize("search", SEARCHES)
def test_an_answer_does_not_depend_on_its_batch(search):
    model, asked = decided(_model(SPECS["doubling"], n=11)), _sentences(6)
    together = SEARCHES[search](model, asked)
    order = torch.randperm(6).tolist()
    moved = decode_all(model, [asked[i] for i in order], SEARCHES[search], batch_tokens=8)
    for got, want in zip(moved, (together[i] for i in order), strict=True):
        assert [h.tokens for h in got] == [h.tokens for h in want]
        assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)


@pytest.mark.parametrize("name", ["paper", "doubling", "sinusoidal"])
def test_a_beam_of_one_is_greedy(name):
    model, asked = decided(_model(SPECS[name], n=11)), _sentences(4)
    narrow = Beam(width=1, limits=LIMITS)(model, asked)
    for (one,), (other,) in zip(narrow, Greedy(limits=LIMITS)(model, asked), strict=True):
        assert one.tokens == other.tokens
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-6)


def test_an_empty_source_has_an_answer_too():
    model, asked = decided(_model(SMALL, n=11)), [Sentence([]), Sentence([5, 6, 7])]
    together = decode_all(model, asked, SEARCHES["beam"])
    alone = SEARCHES["beam"](model, asked[:1])
    assert [h.tokens for h in alone[0]] == [h.tokens for h in together[0]]
    assert all(math.isfinite(h.log_probability) for row in together for h in row)


def test_a_fast_model_is_the_same_model():
    model, source, target = _model(SMALL).float(), _tokens(2, 7), _tokens(2, 5)
    ours = fast_model(model, torch.device("cpu"))
    logits, _ = ours.step(ours.start(source), target)
    assert_close("logits", logits, model(source, target).detach(), atol=1e-4)


def test_its_maps_have_a_row_for_each_token_and_one_for_the_end():
    model, source, target = _model(SMALL), [5, 6, 7, 8], [9, 10, 11]
    maps = attention_of(model, source, target)
    assert list(maps) == ["cross"]
    assert len(maps["cross"]) == SMALL.n_decoder_layers
    for one in maps["cross"]:
        assert one.dense().shape == (1, 1, 4, 4)
        assert_close("rows", one.dense().sum(-1), torch.ones(1, 1, 4))
    # the row that predicts token i has read those before it alone
    fewer = attention_of(model, source, target[:1])
    assert_close("first rows", fewer["cross"][-1].dense(), maps["cross"][-1].dense()[:, :, :2])


def test_it_is_a_model_that_learns_and_writes():
    model, source, target = _model(SMALL), _tokens(2, 7), _tokens(2, 5)
    assert isinstance(model, Model)
    assert isinstance(model, Trainable)
    assert isinstance(model, Stepper)
    hidden, gold = model.loss_inputs(source, target)
    assert gold is target
    assert model.output.bias is None
    assert_close("logits", model.output(hidden), model(source, shifted(target)).detach())


def test_every_parameter_learns():
    model, source, target = _model(replace(SMALL, tied="none")), _tokens(3, 7), _tokens(3, 5)
    model(source, target).square().sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


class _NobodyWaits(TorchDispatchMode):
    """Refuses whatever asks a device for a number, or for a shape that depends on numbers."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        waits = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "aten.equal")
        assert not any(word in name for word in waits), name
        return function(*args, **(kwargs or {}))


def test_nothing_in_a_lesson_or_in_a_step_waits_for_the_device():
    model = build_convolutional(SPECS["sinusoidal"], n_source_tokens=V, n_target_tokens=V)
    source, target = _tokens(2, 7), _tokens(2, 5)
    source[1, 4:] = PAD
    with _NobodyWaits():
        model.train().loss_inputs(source, target).hidden.sum().backward()
        state = model.eval().start(source)
        _, state = model.step(state, target)
        model.step(model.branch(state, torch.zeros(2, 2, dtype=torch.long)), _tokens(4, 1))


@pytest.mark.parametrize("name", ["paper", "untied", "sinusoidal", "no positions"])
@pytest.mark.parametrize("depth", [1, 8])
def test_the_loss_before_training_is_near_log_v(name, depth):
    spec = replace(SPECS[name], d_model=64, n_encoder_layers=depth, n_decoder_layers=depth)
    model = build_convolutional(spec, n_source_tokens=500, n_target_tokens=500).eval()
    source, target = torch.randint(4, 500, (2, 16, 12))
    hidden, gold = model.loss_inputs(source, target)
    loss = float(cross_entropy(model.output(hidden).mT, gold).detach())
    assert abs(loss - math.log(500)) < 0.3


@pytest.mark.parametrize(("tied", "n_free"), [("none", 2), ("output", 1), ("all", 0)])
def test_it_has_as_many_parameters_as_its_sizes_say(tied, n_free):
    model, m = _model(replace(SMALL, tied=tied)), SMALL.d_model
    table, positions = V * m, SMALL.max_len * m
    convolution, square = 3 * m * 2 * m + 2 * m, m * m + m
    want = (1 + n_free) * table + (2 if n_free else 1) * positions
    want += 2 * convolution + 3 * (convolution + square) + square
    assert sum(p.numel() for p in model.parameters()) == want


def test_first_weights_have_the_paper_s_spread():
    spec = replace(SMALL, d_model=64, dropout=0.25, tied="none")
    model = build_convolutional(spec, n_source_tokens=V, n_target_tokens=V)
    want = {
        "source.E.weight": 0.1,
        "target.positions.P.weight": 0.1,
        "encoder.1.W.weight": (4 * 0.75 / (3 * 64)) ** 0.5,
        "decoder.2.convolution.W.weight": (4 * 0.75 / (3 * 64)) ** 0.5,
        "decoder.0.W.weight": (1 / 64) ** 0.5,
        "output.weight": (0.75 / 64) ** 0.5,
    }
    found = {name: float(p.detach().std()) for name, p in model.named_parameters()}
    for name, spread in want.items():
        assert found[name] == pytest.approx(spread, rel=0.08), name
    biases = {name: p for name, p in model.named_parameters() if name.endswith(".bias")}
    assert len(biases) == 2 + 2 * 3 + 1
    assert not any(bias.detach().any() for bias in biases.values())


def test_the_self_check_notices_a_future_that_is_seen(monkeypatch):
    monkeypatch.setattr(
        "regard.layers.convolution.GatedConvolution.step",
        lambda self, x, past, valid=None: (x + x.flip(1), past),
    )
    with pytest.raises(AssertionError, match="a later token changes earlier states by"):
        build_convolutional(SMALL, n_source_tokens=V, n_target_tokens=V)


def test_the_self_check_notices_padding_that_is_read(monkeypatch):
    monkeypatch.setattr(
        "regard.layers.convolution.GatedConvolution._read", lambda self, x, valid: x
    )
    with pytest.raises(AssertionError, match="padding changes states by"):
        build_convolutional(SMALL, n_source_tokens=V, n_target_tokens=V)


def test_a_model_of_no_numbers_has_the_same_shapes():
    with torch.device("meta"):
        nothing = build_convolutional(SMALL, n_source_tokens=V, n_target_tokens=V)
    shapes = [{name: p.shape for name, p in m.named_parameters()} for m in (nothing, _model(SMALL))]
    assert shapes[0] == shapes[1]


def test_two_vocabularies_cannot_share_one_table():
    with pytest.raises(SettingError, match="got 10 source and 12 target tokens"):
        build_convolutional(SMALL, n_source_tokens=10, n_target_tokens=12)
    spec = replace(SMALL, tied="output")
    assert (
        build_convolutional(spec, n_source_tokens=10, n_target_tokens=12).output.out_features == 12
    )


def test_a_text_longer_than_the_table_of_positions_is_refused():
    with pytest.raises(LengthError, match="position 32 was asked for, but the table has 32"):
        _model(SMALL)(_tokens(1, 33), _tokens(1, 2))
