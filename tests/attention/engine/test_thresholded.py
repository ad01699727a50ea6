"""The thresholded path: sparsemax and top-k by blocks equal the dense chain."""

import re

import pytest
import torch

from regard.attention import Chain, all_of, padding
from regard.attention.engine import threshold_blocks
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.general import GeneralScore
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.dims import Dims
from regard.errors import PathError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles
from tests.attention.engine.test_paths import (
    DIMS,
    DV,
    MASKS,
    SIZES,
    B,
    D,
    H,
    assert_path_is_dense,
    inputs,
)

THRESHOLDED = {
    "sparsemax": {"select": SparsemaxSelection()},
    "sparsemax, general": {
        "score": GeneralScore(DIMS).double(),
        "select": SparsemaxSelection(),
    },
    "best of all": {"select": TopKSelection(count=1)},
    "best three": {"select": TopKSelection(count=3)},
    "more than there are": {"select": TopKSelection(count=200)},
}
CAUSAL = CausalPattern()


@pytest.fixture(params=[1.0, 0.0], ids=["kept keys", "all keys"])
def small_blocks(request, monkeypatch):
    monkeypatch.setattr(threshold_blocks, "NUMBERS", 300)
    monkeypatch.setattr(threshold_blocks, "FEWEST_ROWS", 5)
    monkeypatch.setattr(threshold_blocks, "WORTH_GATHERING", request.param)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", THRESHOLDED)
def test_thresholded_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("thresholded", THRESHOLDED[name], n_queries, n_keys, past)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [*SIZES, (3, 17, 5), (71, 71, 0)])
@pytest.mark.parametrize("name", ["sparsemax", "best three", "more than there are"])
def test_thresholded_is_dense_under_every_mask(name, n_queries, n_keys, past, mask):
    links = THRESHOLDED[name]
    assert_path_is_dense("thresholded", links, n_queries, n_keys, past, MASKS[mask](n_keys))


@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_keys_that_are_missing_in_the_middle_and_at_the_start_get_nothing(name):
    valid = torch.rand(B, 71) < 0.6
    valid[:, :9] = False
    mask = [all_of(CAUSAL, padding(valid))]
    assert_path_is_dense("thresholded", THRESHOLDED[name], 71, 71, 0, mask)


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.1, 10.0, 1e3])
@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_rows_that_keep_all_keys_and_rows_that_keep_one_are_dense(name, size):
    # 300 keys are enough for a guess from groups of keys
    x = inputs(30, 300)
    scaled = {**x, "query": (x["query"] * size).detach().requires_grad_()}
    got, want = (
        Chain(**THRESHOLDED[name], path=path)(*scaled.values()) for path in ("thresholded", "dense")
    )
    assert_close("context", got.context, want.context)
    assert_close("map", got.map.dense(), want.map.dense())
    assert_same_gradients(got.context, want.context, scaled)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_keys_tied_at_the_last_place_all_stay(count):
    x = inputs(17, 8)
    x["key"] = x["key"].detach()[..., [0, 1, 0, 2, 1, 3, 0, 3], :].requires_grad_()
    chains = [Chain(select=TopKSelection(count=count), path=p) for p in ("thresholded", "dense")]
    got, want = (chain(*x.values()) for chain in chains)
    assert_close("context", got.context, want.context)
    assert_close("map", got.map.dense(), want.map.dense())
    assert_same_gradients(got.context, want.context, x)


@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_a_tile_rebuilt_alone_in_single_precision_is_the_law(name):
    x = [torch.randn(B, H, 300, 16) for _ in range(3)]
    rebuilt = Chain(**THRESHOLDED[name], path="thresholded")(*x, CAUSAL).map
    want = Chain(**THRESHOLDED[name], path="dense")(*(t.double() for t in x), CAUSAL).map.dense()
    for rows, columns in (((0, 7), (0, 300)), ((100, 101), (33, 90)), ((250, 300), (0, 299))):
        at = slice(*rows), slice(*columns)
        part = want[..., at[0], at[1]]
        assert_close(f"tile {rows} {columns}", rebuilt.tile(*at).double(), part, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_half_precision_is_summed_in_single(name, dtype):
    x = [torch.randn(B, H, 129, 16).to(dtype) for _ in range(3)]
    got = Chain(**THRESHOLDED[name], path="thresholded")(*x)
    want = Chain(**THRESHOLDED[name], path="dense")(*(t.double() for t in x))
    assert got.context.dtype == dtype
    assert_close("context", got.context.double(), want.context, atol=2e-2)
    assert_close("map", got.map.dense().double(), want.map.dense(), atol=1e-5)


def test_each_head_on_a_thread_of_its_own_is_the_same_to_the_last_bit():
    x, chain = inputs(71, 300), Chain(select=SparsemaxSelection(), path="thresholded")
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            context = chain(*x.values()).context
            found.append([context, *torch.autograd.grad(context.square().sum(), list(x.values()))])
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, many) for one, many in zip(*found, strict=True))


@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_a_row_that_sees_the_last_keys_alone_is_dense(name):
    # 300 keys are 18 groups and 12 keys more
    mask = [padding(torch.arange(300) >= torch.tensor([[291], [299]]))]
    assert_path_is_dense("thresholded", THRESHOLDED[name], 17, 300, 0, mask)


@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_one_row_of_padding_serves_all_sentences(name):
    mask = [padding(torch.tensor([40]), 71)]
    assert_path_is_dense("thresholded", THRESHOLDED[name], 71, 71, 0, mask)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sparsemax", "best three"])
def test_a_map_in_half_precision_shows_the_keys_that_were_kept(name, dtype):
    dims = Dims(d_model=16, n_heads=H)
    chain = Chain(GeneralScore(dims), **THRESHOLDED[name], path="thresholded").to(dtype)
    query, key = torch.randn(B, H, 17, 16).to(dtype), torch.randn(B, H, 71, 16).to(dtype)
    done = chain(query, key, torch.eye(71, dtype=dtype).expand(B, H, 71, 71))
    assert_close("map", done.map.dense().float(), done.context.float(), atol=0.01)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_inference_mode_and_autocast_hold_for_every_thread(n_threads):
    x, chain = inputs(17, 300), Chain(select=SparsemaxSelection(), path="thresholded")
    single = [t.detach().float().requires_grad_() for t in x.values()]
    want, before = chain(*single).context, torch.get_num_threads()
    grads = torch.autograd.grad(want.sum(), single)
    try:
        torch.set_num_threads(n_threads)
        with torch.inference_mode():
            assert torch.equal(chain(*single).context, want)
        with torch.autocast("cpu", torch.bfloat16):
            context = chain(*single).context
            assert torch.equal(context, want)
            for got, wanted in zip(torch.autograd.grad(context.sum(), single), grads, strict=True):
                assert torch.equal(got, wanted)
    finally:
        torch.set_num_threads(before)


def test_explain_says_what_the_path_does():
    said = (
        "thresholded: one threshold of each row says which keys have a weight\n"
        "  not short: no memory shortens the keys\n"
        "  not windowed: SparsemaxSelection looks beyond a window\n"
        "  not fused: SparsemaxSelection is not a plain softmax of the scores\n"
        "  not joined: SparsemaxSelection is not a plain softmax of the scores\n"
        "  not sparse: SparsemaxSelection is not a plain softmax of the scores\n"
        r"  2.15e\+09 multiply-adds \(100 % of dense\), 8.19e\+03 numbers held \(0.0244 %\)"
    )
    assert re.fullmatch(said, str(Chain(select=SparsemaxSelection()).explain(4096)))


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ({"select": HardSelection()}, "HardSelection has no threshold"),
        ({"score": AdditiveScore(DIMS)}, "AdditiveScore is not a dot product"),
        ({"relation": ShawRelation(DIMS)}, "ShawRelation changes the scores"),
        (
            {"pattern": SlidingWindowPattern(size=3)},
            "the kernels do not know the mask",
        ),
        ({"dropout": 0.5}, "the weights to be dropped are never stored"),
    ],
)
def test_explain_says_why_it_cannot(links, reason):
    chain = Chain(**{"select": SparsemaxSelection(), **links})
    said = chain.explain(4096, n_heads=H, d_query=D, d_value=DV)
    assert reason in said.refused["thresholded"]


@pytest.mark.parametrize(
    ("n_queries", "n_keys", "path"),
    [(4096, 512, "dense"), (1, 4096, "dense"), (256, 4096, "dense"), (257, 4096, "thresholded")],
)
def test_small_maps_are_kept_whole(n_queries, n_keys, path):
    assert Chain(select=TopKSelection()).explain(n_queries, n_keys).path == path


def test_places_with_gaps_are_left_to_other_paths():
    x, at = [doubles(B, H, 2, D) for _ in range(3)], torch.tensor([0, 5])
    places = Places(at[:, None], at[None], 9)
    with pytest.raises(PathError, match="the rows or columns have gaps"):
        Chain(select=SparsemaxSelection(), path="thresholded")(*x, places=places)
