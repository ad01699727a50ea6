"""Tiles: stitched together they are the matrix, and a tile that saw only some rows says so."""

import numpy as np
import pytest
import torch

from regard.attention import Chain
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.catalogue import mechanisms
from regard.errors import SettingError, UnknownChoice
from regard.inspecting import load_record, save_record
from regard.inspecting import tiles as tiles_module
from regard.inspecting.tiles import PIXELS, Pyramid
from regard.layers import LAYERS
from tests.inspecting.hand_made import Dense
from tests.inspecting.mechanisms import NAMES, WHOLES, recorded, recorded_whole

N = 300


def stitched(pyramid, head, zoom, **asked):
    """All tiles of a zoom side by side, cut to the matrix."""
    down, across = pyramid.counts(zoom)
    rows = [
        np.concatenate([pyramid.tile(head, zoom, x, y, **asked).values for x in range(across)], 1)
        for y in range(down)
    ]
    whole = np.concatenate(rows)
    return whole[
        : -(-pyramid.n_queries // pyramid.height(zoom)), : -(-pyramid.n_keys // pyramid.scale(zoom))
    ]


def pooled(dense, high, wide, how):
    """The same by plain loops over the matrix."""
    q, k = dense.shape
    return np.array(
        [
            [how(dense[i : i + high, j : j + wide]) for j in range(0, k, wide)]
            for i in range(0, q, high)
        ]
    )


def random_map(n_queries, n_keys, **links):
    q, k = torch.randn(1, 3, n_queries, 4), torch.randn(1, 3, n_keys, 4)
    return Chain(**links)(q, k, k).map


@pytest.mark.parametrize("name", NAMES)
def test_stitched_tiles_are_the_dense_matrix_whatever_the_mechanism(name, tmp_path):
    record, layer, context = recorded(name, N)
    dense = layer.dense()[0].numpy()
    pyramid = Pyramid(layer)
    for head in range(2):
        got = stitched(pyramid, head, pyramid.max_zoom)
        np.testing.assert_allclose(got, dense[head], atol=1e-5, rtol=0)
    # the weights of a record times the values are what the layer gave out
    torch.testing.assert_close(layer.context(), context, atol=1e-5, rtol=1e-4)
    for is_half, apart in ((False, 1e-5), (True, 1e-3)):
        save_record(record, tmp_path / "x.safetensors", is_half=is_half)
        kept = load_record(tmp_path / "x.safetensors").attention["self"].layers[0]
        got = stitched(Pyramid(kept), 1, pyramid.max_zoom)
        np.testing.assert_allclose(got, dense[1], atol=apart, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_tiles_of_a_dense_pass_are_the_same_matrix_and_give_what_it_gave(name):
    _, layer, context = recorded(name, N, path="dense")
    pyramid = Pyramid(layer)
    got = stitched(pyramid, 1, pyramid.max_zoom)
    np.testing.assert_allclose(got, layer.dense()[0, 1].numpy(), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.context(), context, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("path", ["fused", "dense"])
@pytest.mark.parametrize("name", WHOLES)
def test_heads_positions_and_branches_have_the_tiles_of_their_dense_matrix(name, path):
    layer, context = recorded_whole(name, path, N)
    dense, pyramid = layer.dense()[0].numpy(), Pyramid(layer)
    for head in range(4):
        got = stitched(pyramid, head, pyramid.max_zoom)
        np.testing.assert_allclose(got, dense[head], atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.context(), context, atol=1e-5, rtol=1e-4)


def test_every_mechanism_of_the_tables_is_looked_at():
    # the other layers only stand around one of these
    known = {entry.name for entry in mechanisms()} - (set(LAYERS) - set(WHOLES))
    assert set(NAMES) | set(WHOLES) == known


def test_a_pause_comes_after_every_block_and_what_it_raises_ends_the_tile(monkeypatch):
    monkeypatch.setattr(tiles_module, "BLOCK", 64 * tiles_module.WIDTH)
    pyramid, paused = Pyramid(random_map(256, 256)), []
    pyramid.tile(0, 0, 0, 0, pause=lambda: paused.append(1))
    assert len(paused) == 4

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pyramid.tile(0, 0, 0, 0, pause=stop)


def test_keys_may_be_counted_for_all_queries_of_a_pixel():
    # a pixel of 8 queries: a few of them are not in its middle
    pyramid = Pyramid(random_map(1100, 1100, pattern=CausalPattern()))
    got = pyramid.allowed(0, 0, rows=None)[:137]
    np.testing.assert_array_equal(got, np.arange(1, 1097).reshape(137, 8).mean(1))
    assert (pyramid.allowed(0, 0)[:137] != got).all()


@pytest.mark.parametrize("shape", [(300, 270), (40, 1030), (300, 1030)])
@pytest.mark.parametrize(
    ("pooling", "how"), [("max", np.max), ("mean", np.mean), ("sum", lambda x: x.sum(1).mean())]
)
def test_every_zoom_pools_the_cells_of_each_pixel(shape, pooling, how):
    layer = random_map(*shape)
    dense, pyramid = layer.dense()[0].numpy(), Pyramid(layer)
    for zoom in range(pyramid.max_zoom):
        got = stitched(pyramid, 2, zoom, pooling=pooling)
        want = pooled(dense[2], pyramid.height(zoom), pyramid.scale(zoom), how)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


def test_few_queries_keep_their_rows_while_many_keys_share_a_pixel():
    pyramid = Pyramid(random_map(21, 3000, pattern=SlidingWindowPattern(size=9)))
    assert [(pyramid.height(z), pyramid.scale(z)) for z in range(5)] == [
        (1, 16), (1, 8), (1, 4), (1, 2), (1, 1),
    ]  # fmt: skip
    assert [pyramid.counts(zoom) for zoom in (0, 4)] == [(1, 1), (1, 12)]
    tile, seen = pyramid.tile(0, 0, 0, 0), pyramid.visible(0, 0, 0)
    assert (tile.rows_used, tile.is_exact) == (1, True)
    dense = pyramid.weights.dense()[0, 0].numpy()
    np.testing.assert_allclose(tile.values[:21, :188], pooled(dense, 1, 16, np.max), atol=1e-6)
    np.testing.assert_array_equal(seen[:21, :188], pooled(dense > 0, 1, 16, np.any))
    np.testing.assert_array_equal(pyramid.allowed(0, 0)[:21], (dense > 0).sum(1))
    # two queries a pixel as soon as there are more than rows
    assert [Pyramid(random_map(300, 3000)).height(z) for z in range(5)] == [2, 1, 1, 1, 1]


def test_the_first_zoom_is_one_tile_and_the_last_has_a_cell_a_pixel():
    pyramid = Pyramid(random_map(700, 270))
    assert (pyramid.max_zoom, pyramid.counts(0), pyramid.counts(2)) == (2, (1, 1), (3, 2))
    assert [pyramid.scale(zoom) for zoom in range(3)] == [4, 2, 1]
    assert Pyramid(random_map(5, 9)).max_zoom == 0


def test_where_the_matrix_has_ended_there_is_no_number():
    tile = Pyramid(random_map(10, 20)).tile(0, 0, 0, 0)
    assert tile.values.shape == (PIXELS, PIXELS)
    assert tile.values.dtype == np.float32
    inside = np.zeros((PIXELS, PIXELS), bool)
    inside[:10, :20] = True
    assert (np.isnan(tile.values) == ~inside).all()
    assert tile.lowest == np.nanmin(tile.values)
    assert tile.highest == np.nanmax(tile.values)


def test_means_and_maxima_over_heads_are_those_of_the_matrix():
    layer = random_map(300, 300)
    dense, pyramid = layer.dense()[0].numpy(), Pyramid(layer)
    np.testing.assert_allclose(stitched(pyramid, "mean", 1), dense.mean(0), rtol=1e-5)
    np.testing.assert_allclose(stitched(pyramid, "max", 1), dense.max(0), rtol=1e-5)


def test_a_large_tile_looks_at_some_rows_and_says_so(monkeypatch):
    monkeypatch.setattr(tiles_module, "MAX_EXACT_CELLS", 256)
    layer = random_map(2048, 2048)
    pyramid = Pyramid(layer)
    quick, exact = pyramid.tile(1, 0, 0, 0), pyramid.tile(1, 0, 0, 0, rows=None)
    assert (quick.rows_used, quick.is_exact) == (4, False)
    assert (exact.rows_used, exact.is_exact) == (8, True)
    dense = layer.dense()[0, 1].numpy()
    np.testing.assert_allclose(exact.values, pooled(dense, 8, 8, np.max), rtol=1e-5)
    # the rows that it looked at are rows of the matrix: every other one
    np.testing.assert_allclose(
        quick.values, dense[::2].reshape(256, 4, 256, 8).max((1, 3)), rtol=1e-5
    )


def test_a_sampled_edge_still_has_its_rows(monkeypatch):
    monkeypatch.setattr(tiles_module, "MAX_EXACT_CELLS", 256)
    # the last pixel has two rows where others have 8
    layer = random_map(8 * 130 + 2, 1100)
    tile = Pyramid(layer).tile(0, 0, 0, 0, pooling="sum")
    np.testing.assert_allclose(np.nansum(tile.values[:131], 1), 1.0, rtol=1e-4)
    assert np.isnan(tile.values[131:]).all()


def test_what_a_mask_empties_is_known_without_computing(monkeypatch):
    layer = random_map(600, 600, pattern=CausalPattern())
    monkeypatch.setattr(type(layer), "tile_of", lambda *_: pytest.fail("computed"))
    tile = Pyramid(layer).tile(0, 2, 2, 0)
    assert tile.is_empty
    assert tile.is_exact
    assert tile.highest == 0.0


def test_masked_pixels_are_told_from_zeros():
    pyramid = Pyramid(random_map(600, 600, pattern=CausalPattern()))
    seen = np.tril(np.ones((600, 600), bool))
    assert (pyramid.visible(2, 1, 1)[:256, :256] == seen[256:512, 256:512]).all()
    assert (pyramid.visible(1, 0, 0) == pooled(seen, 2, 2, np.max)[:256, :256]).all()
    assert not pyramid.visible(2, 2, 2)[88:].any()


def test_the_lift_of_a_uniform_look_is_one():
    same = torch.zeros(1, 1, 600, 4)
    layer = Chain(pattern=CausalPattern())(same, same, same).map
    pyramid = Pyramid(layer)
    for y in range(3):
        tile, allowed = pyramid.tile(0, 2, 0, y), pyramid.allowed(2, y)
        lift = (tile.values * allowed[:, None])[pyramid.visible(2, 0, y)]
        np.testing.assert_allclose(lift, 1.0, rtol=1e-5)


def test_allowed_keys_are_counted_for_patterns_that_no_kernel_knows():
    pyramid = Pyramid(random_map(280, 280, pattern=SlidingWindowPattern(size=3)))
    assert pyramid.allowed(1, 0)[:5].tolist() == [4, 5, 6, 7, 7]
    assert pyramid.allowed(1, 1)[23] == 4


def test_weights_that_somebody_wrote_down_have_tiles_too():
    matrix = torch.rand(1, 2, 9, 7)
    pyramid = Pyramid(Dense(matrix))
    np.testing.assert_array_equal(pyramid.tile(1, 0, 0, 0).values[:9, :7], matrix[0, 1].numpy())
    assert pyramid.visible(0, 0, 0)[:9, :7].all()
    assert pyramid.allowed(0, 0)[:9].tolist() == [7] * 9


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ((0, 3, 0, 0), SettingError, r"zoom lies in 0\.\.1, got 3"),
        ((0, 1, 2, 0), SettingError, r"zoom 1 has 2 × 2 tiles, counted from 0; got x 2, y 0"),
        ((7, 1, 0, 0), SettingError, r"there is no head 7; this layer has 3"),
        (("men", 1, 0, 0), UnknownChoice, r"Did you mean 'mean'\?"),
        ((0, 1, 0, 0, "maxx"), UnknownChoice, r"Did you mean 'max'\?"),
        ((0, 1, 0, 0, "max", 0), SettingError, r"rows must be at least 1"),
    ],
)
def test_a_tile_that_there_is_not_is_an_error(asked, error, said):
    with pytest.raises(error, match=said):
        Pyramid(random_map(300, 300)).tile(*asked)
