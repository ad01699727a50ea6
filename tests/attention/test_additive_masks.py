"""Additive masks: a matrix of floats is added to the scores, by every path and in every shape."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import Chain, attend, engine
from regard.attention.additive_masks import BiasedMask
from regard.attention.engine import streamed
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.dims import Dims
from regard.errors import MeetingError, ShapeError
from regard.inspecting.plain_data import Tensors, as_plain, from_plain
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

B, H, Q, K, D = 2, 3, 11, 17, 5
DIMS = Dims(d_model=D, n_heads=H, max_len=40)
SHAPES = [(Q, K), (1, K), (Q, 1), (B, 1, 1, K), (1, H, Q, K), (H, Q, K), (B, 1, Q, K), (B, H, Q, K)]
PATHS = ["dense", "sparse", "streamed"]
CHAINS = {
    "plain": {},
    "temperature": {"select": SoftSelection(temperature=1.7)},
    "linear_bias": {"relation": LinearBiasRelation(DIMS).double()},
    "shaw": {"relation": ShawRelation(DIMS, clip=3).double()},
    "bucketed": {"relation": BucketedRelation(DIMS).double()},
    "sparsemax": {"select": SparsemaxSelection()},
    "window": {"pattern": SlidingWindowPattern(size=4)},
    "local_monotonic": {"select": LocalMonotonicSelection(half_width=2)},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(streamed, "NUMBERS_AT_ONCE", 2 * B * H * K * 4)


def inputs(n_queries=Q, n_keys=K):
    return {
        "query": doubles(B, H, n_queries, D, requires_grad=True),
        "key": doubles(B, H, n_keys, D, requires_grad=True),
        "value": doubles(B, H, n_keys, D, requires_grad=True),
    }


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_torch_s_own_float_mask(shape, path):
    x, mask = inputs(), doubles(*shape)
    done = Chain(path=path)(*x.values(), mask)
    want = scaled_dot_product_attention(*x.values(), attn_mask=mask)
    assert_close("context", done.context, want)
    assert_close("map", done.map.dense() @ x["value"], want)
    assert_same_gradients(done.context, want, x)


@pytest.mark.parametrize("path", PATHS)
def test_minus_infinity_hides_a_pair_and_a_row_may_see_nothing(path):
    x, mask = inputs(), doubles(B, 1, Q, K)
    mask[torch.rand(mask.shape) < 0.4] = -torch.inf
    mask[..., 0] = 0.0
    mask[0, :, 3] = -torch.inf
    done = Chain(path=path)(*x.values(), mask)
    scores = (x["query"] @ x["key"].mT * D**-0.5 + mask).masked_fill(mask == -torch.inf, -1e300)
    want = (scores.softmax(-1) * (mask > -torch.inf)) @ x["value"]
    assert_close("context", done.context, want)
    assert_close("map", done.map.dense() @ x["value"], want)
    assert_same_gradients(done.context, want, x)


@pytest.mark.parametrize("name", CHAINS)
def test_it_is_added_under_any_other_link(name):
    x, mask = inputs(K, K), doubles(B, 1, K, K)
    mask[torch.rand(mask.shape) < 0.2] = -torch.inf
    chain = Chain(**CHAINS[name])
    got = chain(*x.values(), mask)
    links = {"score": chain.score, "relation": chain.relation, "select": chain.select}
    places = Places.between(K, K)
    seen = chain.pattern.visible(places) & (mask > -torch.inf)
    scores = chain.score(x["query"], x["key"], places)
    scores = scores + chain.relation.to_scores(x["query"], places)
    scores = scores + mask.masked_fill(mask == -torch.inf, 0.0)
    rows = chain.select.summarise(scores, seen, x["query"], places)
    weights = chain.select.weigh(scores, seen, rows, places)
    want = weights @ x["value"] + chain.relation.to_context(weights, places)
    assert_close("context", got.context, want)
    assert_close("map", got.map.dense(), weights)
    assert_same_gradients(got.context, want, x | dict(chain.named_parameters()))
    law = attend(*x.values(), mask.masked_fill(~seen, -torch.inf), **links)
    assert_close("the law", law.context, want)


def test_a_mask_that_learns_gets_its_gradient():
    x, mask = inputs(), doubles(1, H, Q, K, requires_grad=True)
    chain = Chain()
    said = chain(*x.values(), mask)
    want = scaled_dot_product_attention(*x.values(), attn_mask=mask.expand(B, -1, -1, -1))
    assert_same_gradients(said.context, want, {**x, "mask": mask})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("least", [-1e9, None])
@pytest.mark.parametrize("path", PATHS)
def test_a_row_of_nothing_but_large_negative_numbers_still_sums_to_one(path, least, dtype):
    query, key, _ = (t.detach().to(dtype).requires_grad_() for t in inputs().values())
    value = torch.eye(K, dtype=dtype).expand(B, H, K, K)
    # the way of masking by the least number of a precision, or in single precision by -1e9
    mask = torch.zeros(B, 1, Q, K, dtype=dtype if least is None else torch.float32)
    low = torch.finfo(dtype).min if least is None else least
    mask[0, :, 3], mask[1, ..., 9:] = low, low
    weights = Chain(path=path)(query, key, value, mask).context
    assert_close("sums", weights.sum(-1).float(), torch.ones(B, H, Q), atol=0.02)
    assert weights[1, ..., 9:].count_nonzero() == 0
    for grad in torch.autograd.grad(weights[..., 0].sum(), (query, key)):
        assert grad.isfinite().all()


def test_behind_a_cache_it_is_indexed_by_positions():
    x, mask = inputs(3, K), doubles(K, K)
    got = Chain(pattern=CausalPattern())(*x.values(), mask, Places.between(3, K, past=K - 3))
    causal = torch.ones(K, K, dtype=torch.bool).tril()
    bias = mask.masked_fill(~causal, -torch.inf)[-3:]
    assert_close("context", got.context, scaled_dot_product_attention(*x.values(), attn_mask=bias))


def test_it_is_refused_before_a_memory_and_where_it_is_too_small():
    chain = Chain(memory=LinformerMemory(DIMS, slots=4).double())
    with pytest.raises(MeetingError, match="and an additive mask cannot meet: a slot mixes"):
        chain(*inputs().values(), doubles(Q, K))
    for path in (None, "streamed"):
        with pytest.raises(ShapeError, match="mask: the matrix has 5 rows and 17 columns"):
            Chain(path=path)(*inputs().values(), doubles(5, K))


def test_too_small_a_matrix_is_refused_where_blocks_are_not_cut(monkeypatch):
    # as in a compiler's graph
    monkeypatch.setattr(streamed, "_is_cut", lambda case: False)
    with pytest.raises(ShapeError, match="mask: the matrix has 5 rows and 17 columns"):
        Chain(path="streamed")(*inputs().values(), doubles(5, K) > 0)


def test_the_map_of_a_call_with_it_can_be_written_and_read():
    chain, tensors = Chain(relation=LinearBiasRelation(DIMS).double()), Tensors()
    shown = chain(*inputs(K, K).values(), doubles(K, K)).map
    again = from_plain(as_plain(shown.relation, tensors), tensors.named.__getitem__)
    assert_close("map", replace(shown, relation=again).dense(), shown.dense())


def test_the_path_that_runs_is_a_kernel_s_unless_the_mask_learns():
    mask = doubles(64, 64)
    assert Chain().explain(64, mask=mask).path == "sparse"
    assert Chain().explain(64, mask=mask.requires_grad_()).path == "dense"
    assert set(PATHS) < set(engine.PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_beside_a_mask_of_its_own_it_is_one_matrix(path):
    query, key, value = doubles(B, H, Q, D), doubles(B, H, Q, D), doubles(B, H, Q, D)
    added, causal = doubles(1, H, Q, Q), torch.ones(Q, Q).tril().bool()
    got = Chain(path=path)(query, key, value, BiasedMask(CausalPattern(), added))
    want = attend(query, key, value, added.masked_fill(~causal, -torch.inf))
    assert_close("context", got.context, want.context)
    assert_close("weights", got.map.dense(), want.map.dense())
