"""Every path against the dense one: contexts, maps and gradients by name."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from regard.attention import Chain, all_of, given, padding
from regard.attention.engine import sparse
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.dims import Dims
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

B, H, D, DV = 2, 3, 5, 7
DIMS = Dims(d_model=D, n_heads=H, d_value=DV, max_len=160)
CAUSAL = CausalPattern()
SIZES = [
    (1, 1, 0), (2, 2, 0), (15, 15, 0), (17, 17, 0), (63, 63, 0), (65, 65, 0), (129, 129, 0),
    (1, 65, 64), (2, 17, 15), (17, 63, 46), (3, 129, 60), (65, 17, 0),
]  # fmt: skip

FUSED = {
    "scaled_dot": {},
    "dot": {"score": DotScore()},
    "general": {"score": GeneralScore(DIMS).double()},
    "temperature": {"select": SoftSelection(temperature=1.7)},
    "linear_bias": {"relation": LinearBiasRelation(DIMS).double()},
    "linear_bias with temperature": {
        "relation": LinearBiasRelation(DIMS).double(),
        "select": SoftSelection(temperature=1.7),
    },
}
SPARSE = {
    "causal": {"pattern": CAUSAL},
    "sliding_window": {"pattern": SlidingWindowPattern(size=11)},
    "causal window": {"pattern": all_of(SlidingWindowPattern(size=5), CAUSAL)},
    "blocks": {"pattern": BlocksPattern(size=7)},
    "global_tokens": {"pattern": GlobalTokensPattern(first=2, last=3)},
    "random_links": {"pattern": RandomLinksPattern(block=5, n_random=2)},
    "big_bird": {"pattern": BigBirdPattern(block=4, n_random=1)},
    "causal big_bird": {"pattern": BigBirdPattern(block=4, n_random=1, is_causal=True)},
    "matrix": {"pattern": given(torch.rand(160, 160, generator=torch.Generator()) < 0.3)},
    "linear_bias": {"relation": LinearBiasRelation(DIMS).double()},
    "linear_bias with temperature": {
        "relation": LinearBiasRelation(DIMS).double(),
        "select": SoftSelection(temperature=1.7),
    },
    "general in a window": {
        "score": GeneralScore(DIMS).double(),
        "pattern": SlidingWindowPattern(size=3),
    },
}
WINDOWED = {
    "local_monotonic": {"select": LocalMonotonicSelection(half_width=3)},
    "local_predictive": {"select": LocalPredictiveSelection(DIMS, half_width=3).double()},
    "local_monotonic, additive": {
        "score": AdditiveScore(DIMS).double(),
        "select": LocalMonotonicSelection(half_width=2),
    },
    "local_predictive, concat": {
        "score": ConcatScore(DIMS).double(),
        "select": LocalPredictiveSelection(DIMS, half_width=2).double(),
    },
    "local_predictive, location": {
        "score": LocationScore(DIMS).double(),
        "select": LocalPredictiveSelection(DIMS, half_width=2).double(),
    },
    "local_monotonic, general": {
        "score": GeneralScore(DIMS).double(),
        "select": LocalMonotonicSelection(half_width=0),
    },
}
SHORT = {
    "linformer": {"memory": LinformerMemory(DIMS, slots=11).double()},
    "memory_compressed": {"memory": MemoryCompressedMemory(DIMS).double()},
    "additive over slots": {
        "score": AdditiveScore(DIMS).double(),
        "memory": LinformerMemory(DIMS, slots=11, sharing="none").double(),
    },
}
MASKS = {
    "nothing": lambda n: [],
    "padding": lambda n: [padding(torch.tensor([n, max(1, 2 * n // 3)]), n)],
    "a sentence of padding": lambda n: [padding(torch.tensor([0, n]), n)],
    "causal": lambda n: [CAUSAL],
    "causal and padding": lambda n: [all_of(CAUSAL, padding(torch.tensor([n, n // 2]), n))],
}


def inputs(n_queries, n_keys):
    return {
        "query": doubles(B, H, n_queries, D, requires_grad=True),
        "key": doubles(B, H, n_keys, D, requires_grad=True),
        "value": doubles(B, H, n_keys, DV, requires_grad=True),
    }


def assert_path_is_dense(path, links, n_queries, n_keys, past, mask=()):
    x, places = inputs(n_queries, n_keys), Places.between(n_queries, n_keys, past=past)
    chain = Chain(**links, path=path)
    for parameter in chain.parameters():
        parameter.data.normal_(std=0.4)
    got = chain(*x.values(), *mask, places=places)
    want = Chain(**links, path="dense")(*x.values(), *mask, places=places)
    assert_close("context", got.context, want.context)
    assert_close("map", got.map.dense(), want.map.dense())
    assert_same_gradients(got.context, want.context, {**x, **dict(chain.named_parameters())})


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", FUSED)
def test_fused_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("fused", FUSED[name], n_queries, n_keys, past)


@pytest.mark.parametrize("name", ["padding", "a sentence of padding"])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
def test_fused_is_dense_under_padding(name, n_queries, n_keys, past):
    assert_path_is_dense("fused", {}, n_queries, n_keys, past, MASKS[name](n_keys))


@pytest.mark.parametrize("name", ["causal", "causal and padding"])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [*SIZES[:7], (1, 65, 64)])
def test_fused_is_dense_under_a_causal_mask(name, n_queries, n_keys, past):
    assert_path_is_dense("fused", {}, n_queries, n_keys, past, MASKS[name](n_keys))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [*SIZES, (1300, 1300, 0)])
def test_fused_is_dense_under_a_bias_by_distance_and_a_causal_mask(n_queries, n_keys, past):
    assert_path_is_dense("fused", FUSED["linear_bias"], n_queries, n_keys, past, MASKS["causal"](1))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [*SIZES, (1, 17, 5), (3, 17, 0)])
@pytest.mark.parametrize("name", ["causal", "causal and padding"])
def test_whatever_path_a_causal_mask_takes_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense(None, {}, n_queries, n_keys, past, MASKS[name](n_keys))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("sparse", SPARSE[name], n_queries, n_keys, past)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["sliding_window", "big_bird", "linear_bias"])
def test_sparse_is_dense_under_every_mask(name, mask):
    assert_path_is_dense("sparse", SPARSE[name], 71, 71, 0, MASKS[mask](71))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", WINDOWED)
def test_windowed_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("windowed", WINDOWED[name], n_queries, n_keys, past)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", WINDOWED)
def test_windowed_is_dense_under_every_mask(name, mask):
    assert_path_is_dense("windowed", WINDOWED[name], 17, 17, 0, MASKS[mask](17))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", SHORT)
def test_short_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("short", SHORT[name], n_queries, n_keys, past)


@pytest.mark.parametrize("mask", ["padding", "a sentence of padding"])
@pytest.mark.parametrize("name", SHORT)
def test_short_is_dense_under_padding(name, mask):
    assert_path_is_dense("short", SHORT[name], 17, 17, 0, MASKS[mask](17))


@pytest.mark.parametrize("mask", ["causal", "causal and padding"])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES[:11])
def test_short_is_dense_under_a_causal_mask(n_queries, n_keys, past, mask):
    links = SHORT["memory_compressed"]
    assert_path_is_dense("short", links, n_queries, n_keys, past, MASKS[mask](n_keys))


@pytest.mark.parametrize(
    ("path", "links"),
    [("fused", {}), ("sparse", SPARSE["big_bird"]), ("windowed", WINDOWED["local_monotonic"])],
)
def test_in_float32_every_path_is_as_near_as_rounding_allows(path, links):
    x = [t.detach().float() for t in inputs(129, 129).values()]
    got = Chain(**links, path=path)(*x)
    want = Chain(**links, path="dense")(*(t.double() for t in x))
    assert_close("context", got.context.double(), want.context, atol=1e-5)
    assert_close("map", got.map.dense().double(), want.map.dense(), atol=1e-5)


def test_gradients_of_many_chunks_are_summed_in_single_precision(monkeypatch):
    monkeypatch.setattr(sparse, "CHUNKS", (1,))
    n = 700
    query, key = torch.zeros(1, 1, n, 4).bfloat16(), torch.randn(1, 1, n, 4).bfloat16()
    value = torch.randn(1, 1, n, 4).bfloat16().requires_grad_()
    context = Chain(path="sparse")(query, key, value, given(torch.ones(n, n).bool())).context
    # each of the rows, a chunk of its own, gives every key the same small share
    (found,) = torch.autograd.grad(context.sum(), value)
    assert_close("gradient of value", found.double(), torch.ones(1, 1, n, 4), atol=0.01)


def test_a_window_over_thousands_of_tokens_is_dense():
    x = {name: doubles(1, 1, 2049, 3, requires_grad=True) for name in ("query", "key", "value")}
    got = Chain(pattern=SlidingWindowPattern(size=37))(*x.values())
    want = Chain(pattern=SlidingWindowPattern(size=37), path="dense")(*x.values())
    assert_close("context", got.context, want.context)
    assert_same_gradients(got.context, want.context, x)


@pytest.mark.parametrize("links", [{}, WINDOWED["local_monotonic"], SPARSE["linear_bias"]])
def test_places_with_gaps_mean_the_same_on_the_path_that_is_chosen(links):
    x = inputs(3, 4)
    at = Places(torch.tensor([[0], [3], [9]]), torch.tensor([[0, 2, 3, 9]]), 11)
    mask = padding(torch.tensor([[1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1], [1] * 11]).bool())
    got = Chain(**links)(*x.values(), mask, at).context
    want = Chain(**links, path="dense")(*x.values(), mask, at).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize(
    ("path", "links"),
    [
        ("fused", {}),
        ("joined", {"relation": ShawRelation(DIMS, clip=3).double()}),
        ("sparse", SPARSE["big_bird"]),
        ("thresholded", {"select": SparsemaxSelection()}),
        ("windowed", WINDOWED["local_monotonic"]),
        ("streamed", {"score": AdditiveScore(DIMS).double()}),
    ],
)
def test_gradients_under_a_checkpoint_are_those_without(path, links, use_reentrant):
    chain, x = Chain(**links, path=path), list(inputs(31, 31).values())
    chain(*x).context.sin().sum().backward()
    want, again = [t.grad for t in x], [t.detach().requires_grad_() for t in x]

    def context(*x):
        return chain(*x).context

    checkpoint(context, *again, use_reentrant=use_reentrant).sin().sum().backward()
    for name, ours, theirs in zip(("query", "key", "value"), again, want, strict=True):
        assert_close(f"gradient of {name}", ours.grad, theirs)


EVERY_PATH = {
    "fused": {},
    "sparse, causal": {"pattern": CAUSAL},
    "fused, linear_bias": {"relation": LinearBiasRelation(DIMS).double()},
    "joined": {"relation": ShawRelation(DIMS, clip=3).double()},
    "sparse": {"pattern": SlidingWindowPattern(size=3)},
    "thresholded": {"select": SparsemaxSelection()},
    "windowed": {"select": LocalMonotonicSelection(half_width=3)},
    "streamed": {"score": AdditiveScore(DIMS).double()},
    "streamed, causal": {"score": AdditiveScore(DIMS).double(), "pattern": CAUSAL},
}


@pytest.mark.parametrize("is_chosen", [True, False])
@pytest.mark.parametrize(("n_batch", "n_queries"), [(0, 3), (2, 0)])
@pytest.mark.parametrize("name", EVERY_PATH)
def test_an_empty_batch_and_no_queries_give_an_empty_context(name, n_batch, n_queries, is_chosen):
    path = None if is_chosen else name.partition(",")[0]
    query = doubles(n_batch, H, n_queries, D, requires_grad=True)
    key, value = doubles(n_batch, H, 600, D), doubles(n_batch, H, 600, DV)
    context = Chain(**EVERY_PATH[name], path=path)(query, key, value).context
    assert context.shape == (n_batch, H, n_queries, DV)
    assert torch.autograd.grad(context.sum(), query)[0].shape == query.shape
