"""A quick layer is the layer it was made of, step by step, and so is a folded source."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from regard.attention import Chain, KeyValues, multi_head, padding
from regard.attention.folded_source import Folded
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.patterns.full import FullPattern
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.choices import Choice
from regard.decoding import fast_model
from regard.decoding.cpu.quick_layer import QuickLayer, plain_scale
from regard.dims import Dims
from regard.layers import DecoderLayer, FeedForward, PostNorm, PreNorm
from regard.models import TransformerSpec, build_transformer
from regard.models.stepper import PAD
from tests.assertions import assert_close

DIMS = Dims(d_model=32, n_heads=4)
HEADS = {
    "as many groups as heads": lambda: GroupedQueryHeads(DIMS, n_groups=4),
    "two groups, with bias": lambda: GroupedQueryHeads(DIMS, n_groups=2, has_bias=True),
    "one group": lambda: GroupedQueryHeads(DIMS, n_groups=1),
}
SOURCES = {"folded": 3, "not folded": 11}
"""Tokens in a source: four heads of 3 keys are less than half the width, of 11 keys more."""


def _heads(name):
    heads = HEADS[name]().double()
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return heads


def _layer(name, residual):
    layer = DecoderLayer(
        attention=_heads(name),
        cross_attention=_heads(name),
        feed_forward=FeedForward(DIMS),
        around_attention=residual(DIMS),
        around_cross_attention=residual(DIMS),
        around_feed_forward=residual(DIMS),
    )
    return layer.double().eval()


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
@pytest.mark.parametrize("n_source", SOURCES.values(), ids=SOURCES)
@torch.inference_mode()
def test_a_quick_layer_gives_what_the_layer_gives_step_by_step(heads, residual, n_source):
    layer = _layer(heads, residual)
    layer.attention.stack()
    quick, source = QuickLayer(layer), torch.randn(1, n_source, 32).double()
    ours, theirs = quick.start(source), layer.start(source)
    rows = torch.tensor([2, 0, 0])
    for t in range(5):
        x = torch.randn(1 if t == 0 else 3, 1, 32).double()
        got, ours = quick.step(x, ours)
        want, theirs = layer.step(x, theirs)
        assert_close("out", got, want)
        assert_close("keys", ours.past.key, theirs.past.key)
        assert_close("values", ours.past.value, theirs.past.value)
        assert (ours.folded is not None) == (n_source == SOURCES["folded"])
        order = rows if t else torch.zeros(3, dtype=torch.int64)
        ours, theirs = ours.select(order), theirs.select(order)


@pytest.mark.parametrize("heads", HEADS)
@torch.inference_mode()
def test_two_folded_sentences_look_at_their_own_source_each(heads):
    attention, source = _heads(heads), torch.randn(2, 5, 32).double()
    memory, z = attention.remember(source, source), torch.randn(6, 1, 32).double()
    folded = Folded.of(attention, memory, plain_scale(attention))
    want = attention.join(attention.attend_to_memory(z, memory)).context
    assert_close("context", folded.attend(z), want)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("width", [1, 12], ids=["greedy", "beam"])
@torch.inference_mode()
def test_many_rows_over_padded_sources_give_what_the_layer_gives(heads, width):
    layer = _layer(heads, PreNorm)
    layer.attention.stack()
    n = 48 // width
    quick, source = QuickLayer(layer), torch.randn(n, 7, 32).double()
    valid = torch.arange(7) < torch.randint(1, 8, (n, 1))
    # the first sentence has a source without a token
    valid[0] = False
    ours, theirs = quick.start(source), layer.start(source)
    for t in range(4):
        x = torch.randn(n if t == 0 else 48, 1, 32).double()
        got, ours = quick.step(x, ours, source_mask=padding(valid))
        want, theirs = layer.step(x, theirs, source_mask=padding(valid))
        assert_close("out", got, want)
        # from a step to the next, rows move within their sentences
        order = torch.arange(n)[:, None] * (1 if t == 0 else width)
        order = (order + torch.randint(0, 1 if t == 0 else width, (n, width))).flatten()
        ours, theirs = ours.select(order), theirs.select(order)
    assert (ours.batched is not None) == (width > 1)
    # sentences that stay have a source of their own again
    rows = torch.arange(2 * width)
    ours, theirs = (each.keep(rows, torch.arange(2)) for each in (ours, theirs))
    x = torch.randn(2 * width, 1, 32).double()
    got, _ = quick.step(x, ours, source_mask=padding(valid[:2]))
    want, _ = layer.step(x, theirs, source_mask=padding(valid[:2]))
    assert_close("out", got, want)


@torch.inference_mode()
def test_several_positions_at_once_are_left_to_the_layer():
    spec = TransformerSpec(
        d_model=32, n_heads=4, d_hidden=32, n_encoder_layers=1, n_decoder_layers=2
    )
    model = build_transformer(spec, n_source_tokens=20, n_target_tokens=20).eval()
    ours, source = fast_model(model, torch.device("cpu")), torch.randint(4, 20, (2, 3))
    assert all(isinstance(layer, QuickLayer) for layer in ours.decoder)
    source[1, 2] = PAD
    target = torch.randint(4, 20, (2, 6))
    got, state = ours.step(ours.start(source), target[:, :3])
    parts = [got]
    for t in (3, 4, 5):
        more, state = ours.step(state, target[:, t : t + 1])
        parts.append(more)
    torch.testing.assert_close(torch.cat(parts, 1), model(source, target), atol=1e-4, rtol=1e-4)
    assert all(cache.folded is None for cache in state.caches)


def test_what_does_more_than_dots_and_softmax_has_no_plain_scale():
    assert plain_scale(multi_head(DIMS)) == pytest.approx(8**-0.5)
    assert plain_scale(multi_head(DIMS, chain=Chain(score=DotScore()))) == 1.0
    assert plain_scale(multi_head(DIMS, chain=Chain(score=GeneralScore(DIMS.head())))) is None
    assert plain_scale(multi_head(DIMS, chain=Chain(path="dense"))) is None


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copied_model_is_as_quick_as_the_first(way):
    spec = TransformerSpec(d_model=16, n_heads=2, d_hidden=16, n_decoder_layers=2)
    model = build_transformer(spec, n_source_tokens=9, n_target_tokens=9)
    ours = fast_model(way(model), torch.device("cpu"))
    assert sum(isinstance(part, QuickLayer) for part in ours.modules()) == 2


def test_a_mask_that_hides_nothing_is_as_quick_as_none(monkeypatch):
    layer = _layer("one group", PreNorm)
    layer.attention.stack()
    quick, x = QuickLayer(layer), torch.randn(1, 1, 32).double()
    start = quick.start(torch.randn(1, 3, 32).double())
    want = quick.step(x, start)[0]
    monkeypatch.setattr(DecoderLayer, "step", None)
    assert torch.equal(quick.step(x, start, FullPattern(), FullPattern())[0], want)


@pytest.mark.parametrize(
    "change",
    [{"positions": "rotary"}, {"relation": "linear_bias"}, {"score": "additive"}],
    ids=["rotary", "relation", "score"],
)
def test_a_layer_that_does_more_stays_as_it_is(change):
    spec = TransformerSpec(d_model=16, n_heads=2, d_hidden=16, n_decoder_layers=1)
    spec = replace(spec, **{key: Choice(value) for key, value in change.items()})
    ours = fast_model(
        build_transformer(spec, n_source_tokens=9, n_target_tokens=9), torch.device("cpu")
    )
    assert not any(isinstance(part, QuickLayer) for part in ours.modules())


def test_one_position_more_is_what_append_makes_of_it():
    with torch.no_grad():
        past = KeyValues(torch.randn(3, 2, 4, 8), torch.randn(3, 2, 4, 8))
        quick = past
        for _ in range(20):
            both = torch.randn(3, 2, 2, 8)
            past = past.append(KeyValues(both[:, 0, :, None], both[:, 1, :, None]))
            shorter, quick = quick, quick.append_one(both)
            assert torch.equal(quick.key, past.key) and torch.equal(quick.value, past.value)
            assert torch.equal(shorter.key, past.key[:, :, :-1]), "a cache is a value"


def test_writing_twice_behind_one_cache_keeps_both():
    with torch.no_grad():
        start = KeyValues(torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4))
        before = start.append_one(torch.zeros(1, 2, 1, 4))
        one, other = (before.append_one(torch.full((1, 2, 1, 4), x)) for x in (1.0, 2.0))
        assert one.key[0, 0, -1, 0] == 1.0 and other.key[0, 0, -1, 0] == 2.0
