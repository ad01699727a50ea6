"""Kernels for relations by distance: the band, the slope, and tiles of a map."""

import pytest
import torch

from regard.attention import all_of, padding
from regard.attention.engine import sloped
from regard.attention.engine.joined_on_gpu import attend_joined_on_gpu
from regard.attention.engine.sloped import attend_sloped
from regard.attention.engine.tiled_band import attend_over_tiles
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.soft import SoftSelection
from regard.dims import Dims
from tests.kernels.interpreted import D, H, assert_kernel_is_dense

pytestmark = pytest.mark.kernels

DIMS = Dims(d_model=D, n_heads=H)
FAR = 5e-4
"""What single precision leaves of a score of some thousands, where the nearest key is far."""
CAUSAL = CausalPattern()
RELATIONS = {
    "shaw": {"relation": ShawRelation(DIMS)},
    "shaw, clip 0": {"relation": ShawRelation(DIMS, clip=0)},
    "shaw, clip 17, one table": {"relation": ShawRelation(DIMS, clip=17, is_shared=True)},
    "shaw, clip 18": {"relation": ShawRelation(DIMS, clip=18)},
    "shaw, clip 70, temperature": {
        "relation": ShawRelation(DIMS, clip=70),
        "select": SoftSelection(temperature=1.7),
    },
    "bucketed": {"relation": BucketedRelation(DIMS, n_buckets=8, max_distance=20)},
    "bucketed, far": {"relation": BucketedRelation(DIMS)},
}
MASKS = {
    "nothing": lambda n: all_of(),
    "padding": lambda n: padding(torch.tensor([n, max(1, n // 2)]), n),
    "padding before": lambda n: padding(torch.arange(n) >= torch.tensor([[0], [n // 2]])),
    "a sentence of padding": lambda n: padding(torch.tensor([0, n]), n),
    "causal": lambda n: CAUSAL,
    "causal and padding": lambda n: all_of(CAUSAL, padding(torch.tensor([n, n // 2]), n)),
}


@pytest.mark.parametrize("n", [1, 15, 16, 17, 33, 129])
@pytest.mark.parametrize("name", RELATIONS)
def test_far_attentions_and_the_band_are_dense(name, n):
    assert_kernel_is_dense(attend_joined_on_gpu, RELATIONS[name], n)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["shaw", "shaw, clip 18", "bucketed"])
def test_far_attentions_and_the_band_are_dense_under_every_mask(name, mask):
    assert_kernel_is_dense(attend_joined_on_gpu, RELATIONS[name], 83, mask=MASKS[mask](83))


@pytest.mark.parametrize("n", [5, 40, 64, 65, 129])
@pytest.mark.parametrize(
    "name",
    ["shaw", "shaw, clip 0", "shaw, clip 17, one table", "shaw, clip 70, temperature", "bucketed"],
)
def test_tiles_with_a_relation_are_dense(name, n):
    assert_kernel_is_dense(attend_over_tiles, RELATIONS[name], n)


@pytest.mark.parametrize("n", [40, 83])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["shaw", "bucketed"])
def test_tiles_with_a_relation_are_dense_under_every_mask(name, mask, n):
    assert_kernel_is_dense(attend_over_tiles, RELATIONS[name], n, mask=MASKS[mask](n))


@pytest.mark.parametrize("name", ["shaw", "bucketed"])
def test_tiles_with_a_relation_are_dense_under_a_window_and_behind_a_cache(name):
    window = {**RELATIONS[name], "pattern": SlidingWindowPattern(size=20)}
    assert_kernel_is_dense(attend_over_tiles, window, 150)
    assert_kernel_is_dense(attend_over_tiles, RELATIONS[name], 9, 150, past=141, mask=CAUSAL)
    assert_kernel_is_dense(attend_over_tiles, RELATIONS[name], 9, 40, past=31, mask=CAUSAL)


def steep(factor: float) -> dict[str, object]:
    relation = LinearBiasRelation(DIMS)
    relation.m *= factor
    return {"relation": relation}


@pytest.mark.parametrize("factor", [0.3, 1.0, 40.0])
@pytest.mark.parametrize(
    ("n_queries", "n_keys", "past"),
    [(1, 1, 0), (63, 63, 0), (65, 65, 0), (200, 200, 0), (5, 130, 125), (40, 130, 10), (90, 40, 0)],
)
def test_a_slope_is_dense(n_queries, n_keys, past, factor):
    assert_kernel_is_dense(attend_sloped, steep(factor), n_queries, n_keys, past=past)


@pytest.mark.parametrize("factor", [1.0, 40.0])
@pytest.mark.parametrize("mask", MASKS)
def test_a_slope_is_dense_under_every_mask(mask, factor):
    assert_kernel_is_dense(attend_sloped, steep(factor), 150, mask=MASKS[mask](150), near=FAR)


def test_a_steep_slope_leaves_out_what_it_hides(monkeypatch):
    lines = []

    def noted(*inputs):
        lines.append(line_of(*inputs))
        return lines[-1]

    line_of = sloped.line_of
    monkeypatch.setattr(sloped, "line_of", noted)
    assert_kernel_is_dense(attend_sloped, steep(40.0), 300)
    # the first head's slope is steep, the second's one sixteenth of it
    first, second = lines[0].limit.amax(0)
    assert first < 30 < second


def test_a_row_far_from_its_nearest_key_is_not_left_without_keys():
    far = padding(torch.arange(200) < torch.tensor([[20], [200]]))
    assert_kernel_is_dense(attend_sloped, steep(40.0), 200, mask=far, near=FAR)
