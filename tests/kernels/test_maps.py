"""Kernels for maps: tiles of a pattern, one tile, windows, thresholds, and networks of pairs."""

import pytest
import torch

from regard.attention import all_of, padding, pair_network
from regard.attention.engine.thresholded import AttendAboveThreshold
from regard.attention.engine.tiles import Tiling
from regard.attention.engine.windowed import _by_kernel
from regard.attention.links import SoftRows
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.full import FullPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.dims import Dims
from tests.assertions import assert_close, gradients
from tests.kernels.interpreted import NEAR, D, H, assert_kernel_is_dense, drawn
from tests.kernels.test_relations import MASKS

pytestmark = pytest.mark.kernels

DIMS = Dims(d_model=D, n_heads=H)
PATTERNS = {
    "full": FullPattern(),
    "causal": CausalPattern(),
    "window": SlidingWindowPattern(size=70),
    "big_bird": BigBirdPattern(block=16, n_random=1),
    "causal big_bird": BigBirdPattern(block=16, n_random=1, is_causal=True),
}


def attend_in_tiles(case):
    from regard.attention.engine.sparse_kernel import AttendInTiles

    n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
    tiling = Tiling.of(case.mask, case.places, n_queries, n_keys)
    tensors = (case.dot.query, case.dot.key, case.value)
    context, lse = AttendInTiles.apply(*tensors, tiling, case.dot.scale)
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


def attend_in_a_tile(case):
    from regard.attention.engine.short_kernel import AttendInATile

    tensors, mask = (case.dot.query, case.dot.key, case.value), case.kernel_mask
    context, lse = AttendInATile.apply(*tensors, mask.valid, mask.is_causal, case.dot.scale)
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


@pytest.mark.parametrize("n", [1, 63, 65, 200])
@pytest.mark.parametrize("name", PATTERNS)
def test_tiles_of_a_pattern_are_dense(name, n):
    assert_kernel_is_dense(attend_in_tiles, {"pattern": PATTERNS[name]}, n)


@pytest.mark.parametrize("name", ["full", "window", "big_bird"])
def test_tiles_of_a_pattern_are_dense_under_padding_and_behind_a_cache(name):
    pattern = PATTERNS[name]
    some = padding(torch.tensor([150, 70]), 150)
    assert_kernel_is_dense(attend_in_tiles, {"pattern": pattern}, 150, mask=some)
    assert_kernel_is_dense(attend_in_tiles, {"pattern": pattern}, 9, 150, past=141)
    assert_kernel_is_dense(
        attend_in_tiles, {"pattern": pattern}, 150, mask=all_of(CausalPattern(), some)
    )


@pytest.mark.parametrize("n", [1, 16, 17, 40, 64])
@pytest.mark.parametrize("mask", MASKS)
def test_one_tile_is_dense(mask, n):
    assert_kernel_is_dense(attend_in_a_tile, {}, n, mask=MASKS[mask](n))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "select",
    [LocalMonotonicSelection(half_width=3), LocalPredictiveSelection(DIMS, half_width=5)],
    ids=["local_monotonic", "local_predictive"],
)
def test_windows_are_dense(select, mask):
    assert_kernel_is_dense(_by_kernel, {"select": select}, 90, mask=MASKS[mask](90))


@pytest.mark.parametrize("past", [None, 0], ids=["all", "causal"])
@pytest.mark.parametrize("count", [0, 3, 40], ids=["sparsemax", "top 3", "top 40"])
def test_thresholds_are_those_of_a_cpu(count, past):
    from regard.attention.engine import threshold_backward_kernel, threshold_kernel

    n, scale = 200, D**-0.5
    x = {name: tensor.float().requires_grad_() for name, tensor in drawn(n, n).items()}
    valid = torch.arange(n) < torch.tensor([[n], [n - 30]])
    want, *rows = AttendAboveThreshold.apply(*x.values(), valid, past, count, scale)
    settings = (valid, past, count, scale)
    plain = [tensor.detach() for tensor in x.values()]
    context, threshold, normaliser, tiles = threshold_kernel.attend(*plain, *settings)
    assert_close("context", context, want.detach(), atol=NEAR)
    # of a row that keeps all keys any number below them will do
    assert_close("threshold", threshold.clamp(min=-1e30), rows[0].clamp(min=-1e30), atol=NEAR)
    direction = torch.randn_like(want)
    found = threshold_backward_kernel.differentiate(
        direction, *plain, context, threshold, normaliser, tiles, *settings
    )
    for name, got, wanted in zip(
        x, found, torch.autograd.grad(want, list(x.values()), direction), strict=True
    ):
        assert_close(f"gradient of {name}", got, wanted, atol=1e-4)


@pytest.mark.parametrize(("n_rows", "n_columns", "width"), [(1, 1, 1), (65, 130, 7), (40, 1100, 3)])
@pytest.mark.parametrize("activation", [torch.tanh, torch.relu, torch.sigmoid])
def test_networks_of_pairs_are_the_formula(activation, n_rows, n_columns, width, monkeypatch):
    shapes = {"rows": (2, 3, n_rows, width), "columns": (2, 3, n_columns, width), "v": (3, width)}
    x = {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}
    exact = {name: tensor.clone().requires_grad_() for name, tensor in x.items()}
    given = {name: tensor.float().requires_grad_() for name, tensor in x.items()}
    hidden = activation(exact["rows"][..., :, None, :] + exact["columns"][..., None, :, :])
    want = torch.einsum("bhqkf,hf->bhqk", hidden, exact["v"])
    monkeypatch.setattr(pair_network, "FEW_NUMBERS", 0)
    monkeypatch.setattr(pair_network, "fits_kernel", lambda rows, columns: True)
    got = pair_network.pair_numbers(*given.values(), activation)
    assert_close("numbers", got.double(), want, atol=NEAR)
    ours = gradients(got, given)
    for name, gradient in gradients(want, exact).items():
        scale = max(1.0, float(gradient.abs().max()))
        assert_close(
            f"gradient of {name}", ours[name].double() / scale, gradient / scale, atol=NEAR
        )
