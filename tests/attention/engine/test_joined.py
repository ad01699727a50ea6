"""The joined path: far left, band and far right equal the dense chain, and its pieces each pair."""

from copy import deepcopy

import pytest
import torch

from regard.attention import Chain, attend, padding
from regard.attention.banded import Banded
from regard.attention.engine.joined import far_pieces
from regard.attention.links import Relation
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.soft import SoftSelection
from regard.dims import Dims
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients
from tests.attention.engine.test_paths import DIMS, MASKS, SIZES, assert_path_is_dense, inputs

JOINED = {
    "shaw": {"relation": ShawRelation(DIMS, clip=3).double()},
    "shaw, one table": {"relation": ShawRelation(DIMS, clip=16, is_shared=True).double()},
    "shaw, clip 0": {"relation": ShawRelation(DIMS, clip=0).double()},
    "shaw, clip 1, temperature": {
        "relation": ShawRelation(DIMS, clip=1).double(),
        "select": SoftSelection(temperature=1.7),
    },
    "shaw, clip beyond the row": {"relation": ShawRelation(DIMS, clip=150).double()},
    "linear_bias": {"relation": LinearBiasRelation(DIMS).double()},
    "linear_bias, temperature": {
        "relation": LinearBiasRelation(DIMS).double(),
        "select": SoftSelection(temperature=1.7),
    },
    "bucketed": {"relation": BucketedRelation(DIMS, n_buckets=8, max_distance=20).double()},
    "bucketed, keys before": {
        "relation": BucketedRelation(DIMS, n_buckets=6, max_distance=9, is_causal=True).double()
    },
}


@pytest.mark.parametrize(
    ("n_queries", "n_keys", "past"), [*SIZES, (5, 40, 3), (40, 5, 2), (40, 5, 200)]
)
@pytest.mark.parametrize("name", JOINED)
def test_joined_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("joined", JOINED[name], n_queries, n_keys, past)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", JOINED)
def test_joined_is_dense_under_every_mask(name, mask):
    assert_path_is_dense("joined", JOINED[name], 71, 71, 0, MASKS[mask](71))


@pytest.mark.parametrize("mask", ["causal", "causal and padding"])
@pytest.mark.parametrize("name", ["shaw", "linear_bias"])
def test_joined_is_dense_behind_a_cache(name, mask):
    assert_path_is_dense("joined", JOINED[name], 17, 63, 46, MASKS[mask](63))


def test_padding_before_the_text_is_dense():
    mask = padding(torch.arange(71) >= torch.tensor([[0], [40]]))
    assert_path_is_dense("joined", JOINED["shaw"], 71, 71, 0, [mask])


@pytest.mark.parametrize("reach", [1, 4, 30])
@pytest.mark.parametrize(("n_rows", "n_columns", "past"), [*SIZES, (5, 40, 3), (40, 5, 2)])
def test_pieces_hold_each_far_pair_once(n_rows, n_columns, past, reach):
    count = torch.zeros(n_rows, n_columns, dtype=torch.long)
    for piece in far_pieces(n_rows, n_columns, past, reach):
        part = torch.ones_like(count[piece.rows, piece.columns])
        part = part.tril() if piece.is_causal else part
        count[piece.rows, piece.columns] += part.flip(0, 1) if piece.is_right else part
    distance = torch.arange(n_columns) - torch.arange(n_rows)[:, None] - past
    assert count.tolist() == (distance.abs() >= reach).long().tolist()


def test_in_float32_the_joined_path_is_as_near_as_rounding_allows():
    x = [t.detach().float() for t in inputs(300, 300).values()]
    relation = ShawRelation(DIMS, clip=16)
    got = Chain(relation=relation, path="joined")(*x)
    exact = deepcopy(relation).double()
    want = Chain(relation=exact, path="dense")(*(t.double() for t in x))
    assert_close("context", got.context.double(), want.context, atol=1e-5)
    assert_close("map", got.map.dense().double(), want.map.dense(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_slope_far_from_the_first_key_is_exact_in_half_precision(dtype):
    # 6,000 keys' distance times the steepest slope over the scale is 67,882: more than half's most
    dims, places = Dims(d_model=256, n_heads=16), Places.between(4, 6000, past=5996)
    relation = LinearBiasRelation(dims).to(dtype)
    x = [torch.randn(1, 16, n, 256).to(dtype) for n in (4, 6000, 6000)]
    got = Chain(relation=relation, path="joined")(*x, places=places).context
    want = attend(*(t.double() for t in x), relation=deepcopy(relation).double(), places=places)
    assert_close("context", got.double(), want.context, atol=0.02)


class LearnedSlope(torch.nn.Module, Relation):
    """A line whose slope is learned."""

    is_movable, reads_query, reach, has_slope = True, False, 1, True

    def __init__(self):
        super().__init__()
        self.m = torch.nn.Parameter(torch.full((3,), -0.3, dtype=torch.float64))

    def as_bias(self, places):
        return self.m.view(-1, 1, 1) * places.offsets.abs()

    def as_banded(self, query):
        near = torch.arange(-1, 2).abs()
        return Banded(self.m.view(1, -1, 1, 1) * near, None, self.m)


def test_a_learned_slope_is_left_to_a_path_that_gives_it_a_gradient():
    relation, x = LearnedSlope(), inputs(600, 600)
    chain = Chain(relation=relation)
    assert "learns its slope" in chain.explain(600, n_heads=3).refused["joined"]
    with torch.no_grad():
        assert "joined" not in chain.explain(600, n_heads=3).refused
    want = Chain(relation=relation, path="dense")(*x.values()).context
    assert_same_gradients(chain(*x.values()).context, want, {**x, "m": relation.m})


def test_a_gradient_of_a_gradient_is_refused():
    x = inputs(7, 7)
    context = Chain(**JOINED["shaw, clip beyond the row"], path="joined")(*x.values()).context
    (first,) = torch.autograd.grad(context.square().sum(), x["query"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
