"""A contact sheet shows the maps' numbers at the right place of the original picture."""

import builtins
import math
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.data.boxes import Box
from regard.data.pictures import Picture
from regard.errors import MissingExtra, UnknownChoice
from regard.evaluating.pointing_game import grid_cells
from regard.plots import fonts, pictures
from regard.plots.overlays import OVERLAYS
from tests.inspecting.captions_by_hand import captioned, written

WIDTH, HEIGHT = 90, 60
GREY = np.full((HEIGHT, WIDTH, 3), 120, dtype=np.uint8)
MIDDLE = Box(15.0, 0.0, 75.0, 60.0)
WORDS = ["a", "dog", "runs"]
GRID = (4, 5)
MAPS = torch.randn(3, 20, generator=torch.Generator().manual_seed(0)).softmax(-1)


def caption_sheet(pixels, words, maps, *, grid, shown=None, size=None, gates=(), overlay="heat"):
    """The sheet of a record with these maps; its last row, of the end, is not shown."""
    width, height = size or (pixels.shape[1], pixels.shape[0])
    picture, tokens = Picture("x", pixels, width, height), written(*words)
    rows = torch.cat([maps, maps.new_zeros(1, maps.shape[1])])
    record = captioned([[rows]], tokens, grid=grid, gates=(*gates, 0.0) if gates else None,
                       picture=picture)  # fmt: skip
    covered = shown or Box(0.0, 0.0, float(width), float(height))
    return pictures.caption_sheet(replace(record, covered=covered), overlay=overlay)


def _one_hot(cell, count=20):
    return torch.eye(count)[[cell]]


def _drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(float)


def _brightness(pixels, ax, x, y):
    """How bright the sheet is where a panel shows a place of the picture."""
    right, up = ax.transData.transform((x, y))
    return pixels[len(pixels) - 1 - int(up), int(right)].sum()


def _panels(figure):
    """All but the bar."""
    return [ax for ax in figure.axes if ax.images]


def _footer(figure):
    return figure.get_supxlabel().replace("\n", " ")


def test_the_picture_comes_first_and_then_a_panel_a_word():
    figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID)
    first, *panels = _panels(figure)
    assert first.get_title() == "90 × 60 pixels"
    assert len(first.images) == 1
    assert [ax.texts[0].get_text() for ax in panels] == WORDS
    np.testing.assert_array_equal(first.images[0].get_array(), GREY)


def test_a_title_has_the_gate_and_the_entropy():
    flat = torch.full((1, 20), 1 / 20)
    figure = caption_sheet(GREY, ["a", "b"], torch.cat([flat, _one_hot(3)]), grid=GRID,
                           gates=[0.25, 1.0])  # fmt: skip
    titles = [ax.get_title() for ax in _panels(figure)[1:]]
    assert titles == [f"β 0.25 · H {math.log(20):.2f}", "β 1.00 · H 0.00"]
    assert "β: how open the gate" in _footer(figure)
    plain = caption_sheet(GREY, WORDS, MAPS, grid=GRID)
    assert _panels(plain)[1].get_title().startswith("H ")
    assert "β" not in _footer(plain)
    assert "H: entropy in nats, 3.00 where all cells weigh the same" in _footer(plain)


def test_raw_cells_are_the_maps_numbers_over_what_was_shown():
    figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID, shown=MIDDLE, overlay="cells")
    for ax, one in zip(_panels(figure)[1:], MAPS, strict=True):
        picture, cells = ax.images
        np.testing.assert_array_equal(cells.get_array(), one.double().numpy().reshape(GRID))
        assert cells.get_extent() == [15.0, 75.0, 60.0, 0.0]
        assert picture.get_extent() == [0, 90, 60, 0]
        assert cells.get_interpolation() == "nearest"
    assert _footer(figure).startswith("4 × 5 cells, not smoothed")


def test_every_raw_cell_is_drawn_where_it_lies_in_the_picture():
    # the brightest place of the sheet must be the cell's rectangle in the original, and no other
    boxes = grid_cells(*GRID, MIDDLE)
    for cell in (0, 4, 7, 15, 19):
        figure = caption_sheet(GREY, ["x"], _one_hot(cell), grid=GRID, shown=MIDDLE,
                               overlay="cells")  # fmt: skip
        pixels, ax = _drawn(figure), _panels(figure)[1]
        for other, (left, top, right, bottom) in enumerate(boxes.tolist()):
            corners = [
                _brightness(pixels, ax, left + (right - left) * a, top + (bottom - top) * b)
                for a in (0.15, 0.85)
                for b in (0.15, 0.85)
            ]
            assert {corner > 400 for corner in corners} == {cell == other}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_marked_corner_of_the_picture_is_where_its_map_is_drawn(overlay):
    # the model saw the right part only, and looks at its lower right cell, where the mark is
    marked = np.full((40, 100, 3), 60, dtype=np.uint8)
    marked[30:, 90:] = 255
    figure = caption_sheet(marked, ["mark"], _one_hot(15, 16), grid=(4, 4),
                           shown=Box(60.0, 0.0, 100.0, 40.0), overlay=overlay)  # fmt: skip
    pixels, (first, panel) = _drawn(figure), _panels(figure)
    assert _brightness(pixels, first, 95, 35) == 3 * 255
    mark = _brightness(pixels, panel, 96, 36)
    others = [(62, 2), (62, 38), (98, 2), (80, 20), (5, 5), (5, 35)]
    assert all(mark > 1.4 * _brightness(pixels, panel, x, y) for x, y in others)


def test_a_spotlight_leaves_the_peak_as_it_was_and_darkens_the_rest():
    white = np.full((60, 60, 3), 255, dtype=np.uint8)
    figure = caption_sheet(white, ["x"], _one_hot(10, 16), grid=(4, 4), overlay="spotlight")
    pixels, ax = _drawn(figure), _panels(figure)[1]
    assert _brightness(pixels, ax, 37.5, 37.5) > 3 * 240
    assert _brightness(pixels, ax, 3, 3) < 3 * 60


def test_smoothed_overlays_say_so():
    for overlay in ("heat", "spotlight"):
        told = _footer(caption_sheet(GREY, WORDS, MAPS, grid=GRID, overlay=overlay))
        assert told.startswith("4 × 5 cells, smoothed for display")


def test_what_the_model_did_not_see_is_hatched():
    figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID, shown=MIDDLE)
    for ax in _panels(figure):
        veils = sorted(patch.get_bbox().extents.tolist() for patch in ax.patches)
        assert veils == [[0, 0, 15, 60], [75, 0, 90, 60]]
        assert all(patch.get_hatch() for patch in ax.patches)
    assert not _panels(caption_sheet(GREY, WORDS, MAPS, grid=GRID))[0].patches


def test_padding_around_a_picture_is_not_drawn():
    padded = Box(0.0, -15.0, 90.0, 75.0)
    ax = _panels(caption_sheet(GREY, WORDS, MAPS, grid=GRID, shown=padded))[1]
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 90), (60, 0))
    assert ax.images[1].get_extent() == [0.0, 90.0, 75.0, -15.0]
    assert not ax.patches


def test_every_word_has_its_own_scale():
    maps = torch.stack([_one_hot(3)[0], torch.full((20,), 1 / 20)])
    figure = caption_sheet(GREY, ["a", "b"], maps, grid=GRID, overlay="cells")
    tops = [ax.images[1].get_clim()[1] for ax in _panels(figure)[1:]]
    assert tops == pytest.approx([1.0, 0.05])
    bar = next(ax for ax in figure.axes if not ax.images and ax.get_xlabel())
    assert bar.get_xlabel() == "weight of a cell"
    assert [tick.get_text() for tick in bar.get_xticklabels()] == ["0", "the word's largest"]


def test_a_large_picture_is_drawn_with_fewer_pixels_at_the_same_place():
    large = np.zeros((900, 2000, 3), dtype=np.uint8)
    large[:, 1000:] = 200
    ax = _panels(caption_sheet(large, WORDS, MAPS, grid=GRID))[0]
    drawn = ax.images[0].get_array()
    assert drawn.shape == (480, 480, 3)
    assert (drawn[:, :239] == 0).all() and (drawn[:, 241:] == 200).all()
    assert ax.images[0].get_extent() == [0, 2000, 900, 0]


def test_fewer_pixels_than_the_picture_has_cover_all_of_it():
    figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID, size=(900, 600))
    ax = _panels(figure)[1]
    assert ax.images[0].get_extent() == [0, 900, 600, 0]
    assert ax.images[1].get_extent() == [0.0, 900.0, 600.0, 0.0]
    assert _panels(figure)[0].get_title() == "900 × 600 pixels"


def test_a_picture_keeps_its_shape_unless_it_is_very_long():
    figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID)
    _drawn(figure)
    box = _panels(figure)[1].get_window_extent()
    assert box.width / box.height == pytest.approx(90 / 60, rel=0.02)
    long = np.zeros((10, 2000, 3), dtype=np.uint8)
    figure = caption_sheet(long, WORDS, MAPS, grid=GRID)
    _drawn(figure)
    box = _panels(figure)[1].get_window_extent()
    assert box.width / box.height == pytest.approx(4, rel=0.05)
    assert _panels(figure)[0].get_title() == "2000 × 10 pixels, squeezed"


def test_panels_stand_in_rows_of_five():
    figure = caption_sheet(GREY, list("abcdefg"), MAPS[[0, 1, 2, 0, 1, 2, 0]], grid=GRID)
    assert [ax.get_subplotspec().rowspan.start for ax in _panels(figure)] == [0] * 5 + [1] * 3


def test_dead_maps_are_called_dead_on_the_sheet():
    figure = caption_sheet(GREY, WORDS, torch.full((3, 20), 0.05), grid=GRID)
    assert "The maps are dead: every word looks" in _footer(figure)
    assert figure._supxlabel.get_fontweight() == "bold"
    assert "dead" not in _footer(caption_sheet(GREY, WORDS, torch.eye(20)[:3], grid=GRID))


def test_any_word_can_stand_above_its_panel():
    words = ["$\\frac$", "w" * 90, ""]
    figure = caption_sheet(GREY, words, MAPS, grid=GRID)
    _drawn(figure)
    shown = [ax.texts[0].get_text() for ax in _panels(figure)[1:]]
    assert shown[0] == "$\\frac$"
    assert shown[1].endswith("w…") and len(shown[1]) < 60


def test_a_character_that_no_font_has_is_explained(monkeypatch):
    monkeypatch.setattr(fonts, "_newly_installed", list)
    figure = caption_sheet(GREY, ["a", "\U000e1234", "c"], MAPS, grid=GRID)
    assert _panels(figure)[2].texts[0].get_text() == "□"
    assert "□: no installed font has this character" in _footer(figure)
    assert "□" not in _footer(caption_sheet(GREY, WORDS, MAPS, grid=GRID))


def test_an_empty_caption_is_the_picture_alone():
    figure = caption_sheet(GREY, [], MAPS[:0], grid=GRID)
    _drawn(figure)
    assert len(_panels(figure)) == 1


def test_colours_of_text_follow_the_style_and_no_setting_is_changed():
    before = dict(matplotlib.rcParams)
    with style.context("dark_background"):
        figure = caption_sheet(GREY, WORDS, MAPS, grid=GRID)
        _drawn(figure)
    assert figure.get_facecolor() == (0.0, 0.0, 0.0, 1.0)
    assert _panels(figure)[1].texts[0].get_color() == "white"
    assert dict(matplotlib.rcParams) == before


def test_an_overlay_that_there_is_not_is_refused():
    with pytest.raises(UnknownChoice, match="overlay: There is no 'head' here"):
        caption_sheet(GREY, WORDS, MAPS, grid=GRID, overlay="head")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    honest = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return honest(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[plots\]'"):
        caption_sheet(GREY, WORDS, MAPS, grid=GRID)
