"""Figures of a record show its numbers, in the right place, under the right names."""

import builtins
import sys

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch.testing import assert_close

from regard.errors import MissingExtra
from regard.inspecting.panels import View
from regard.plots import fonts, heads_grid, record_map
from regard.plots.colours import LIGHT, colour
from regard.plots.fonts import drawable
from tests.inspecting.hand_made import of_a_model, tokens, written_down

WEIGHTS = [[0.1, 0.2, 0.7], [0.05, 0.9, 0.05]]


def _record(*layers):
    return written_down(*layers, queries=tokens("chien", "rouge"), keys=tokens("a", "red", "dog"))


def _brightness(figure):
    """The drawn pixels as brightness, the first row at the top, and the canvas."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(float).sum(axis=-1)


def _cells(figure, ax, rows, columns):
    """How bright each cell is, away from the number in its middle."""
    pixels = _brightness(figure)
    out = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            x, y = ax.transData.transform((j - 0.4, i - 0.4))
            out[i, j] = pixels[len(pixels) - 1 - int(y), int(x)]
    return out


def test_the_darkest_cell_is_where_the_largest_weight_is():
    figure = record_map(_record([WEIGHTS]))
    cells = _cells(figure, figure.axes[0], 2, 3)
    assert np.unravel_index(cells.argmin(), cells.shape) == (1, 1)
    order = np.argsort(np.asarray(WEIGHTS).ravel())
    assert (np.diff(cells.ravel()[order]) <= 0).all()


def test_axes_are_named_query_and_key_and_ticks_are_tokens():
    figure = record_map(_record([WEIGHTS]))
    ax, bar = figure.axes
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("query (target)", "key (source)")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["chien", "rouge"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "red", "dog"]
    assert ax.get_title() == "cross attention, layer 1, head 1"
    assert bar.get_ylabel() == "weight"
    assert [text.get_text() for text in ax.texts] == [
        "0.10",
        "0.20",
        "0.70",
        "0.05",
        "0.90",
        "0.05",
    ]


def test_the_picture_holds_the_record_s_numbers():
    torch.manual_seed(3)
    record, _ = of_a_model()
    view = View("decoder", 1, 2, "pieces")
    drawn = record_map(record, view).axes[0].images[0].get_array()
    assert_close(torch.from_numpy(np.asarray(drawn)), record.weights("decoder", 1, 2))


def test_it_draws_on_a_given_axis():
    figure = Figure()
    ax = figure.add_subplot()
    assert record_map(_record([WEIGHTS]), ax=ax) is figure
    assert len(ax.images) == 1


def test_dollars_are_no_formula():
    keys = tokens("$x_{", "$\\frac$", "dog")
    record = written_down([WEIGHTS], queries=tokens("$a$", "b"), keys=keys)
    figure = record_map(record)
    _brightness(figure)
    assert figure.axes[0].get_xticklabels()[1].get_text() == "$\\frac$"


@pytest.mark.parametrize(
    ("names", "turned"), [(("a", "of", "it"), 0.0), (("a", "of", "something"), 90.0)]
)
def test_names_of_columns_are_all_turned_or_none_is(names, turned):
    figure = record_map(written_down([WEIGHTS], queries=tokens("x", "y"), keys=tokens(*names)))
    _brightness(figure)
    shown = figure.axes[0].get_xticklabels()
    assert [tick.get_rotation() for tick in shown] == [turned] * 3


def test_figures_have_the_colours_of_the_page():
    figure = record_map(_record([WEIGHTS]))
    colours = figure.axes[0].images[0].get_cmap()
    assert colours(0.0, bytes=True)[:3] == colour(LIGHT, 0.0)
    assert colours(1.0, bytes=True)[:3] == colour(LIGHT, 1.0)
    assert record_map(_record([WEIGHTS]), colours="gray_r").axes[0].images[0].get_cmap().name == (
        "gray_r"
    )


def test_a_long_text_is_pooled_and_says_so(monkeypatch):
    # the package's name `heatmap` is the function
    module = sys.modules[record_map.__module__]
    monkeypatch.setattr(module, "MAX_NAMED_ROWS", 2)
    monkeypatch.setattr(module, "BINS", 2)
    figure = record_map(_record([WEIGHTS]))
    ax = figure.axes[0]
    assert ax.get_xlabel() == "key (source), 3 pieces in 2 bins"
    drawn = torch.from_numpy(np.asarray(ax.images[0].get_array()))
    assert_close(drawn, torch.tensor([[0.3, 0.7], [0.95, 0.05]]))


def test_every_head_has_its_place_in_the_grid_and_all_share_one_scale():
    other = [[0.0, 0.5, 0.5], [0.3, 0.3, 0.4]]
    record = _record([WEIGHTS, other], [other, other])
    figure = heads_grid(record)
    *pictures, bar = figure.axes
    assert [ax.get_title() for ax in pictures] == ["head 1", "head 2", "", ""]
    assert [ax.get_ylabel() for ax in pictures] == ["layer 1", "", "layer 2", ""]
    for ax, want in zip(pictures, [WEIGHTS, other, other, other], strict=True):
        assert_close(torch.from_numpy(np.asarray(ax.images[0].get_array())), torch.tensor(want))
        assert ax.images[0].get_clim() == pytest.approx((0.0, 0.9))
    assert bar.get_ylabel() == "weight"
    brightness = _brightness(figure)
    x, y = pictures[0].transData.transform((1, 1))
    best = brightness[len(brightness) - 1 - int(y), int(x)]
    x, y = pictures[0].transData.transform((0, 1))
    assert best < brightness[len(brightness) - 1 - int(y), int(x)]


def test_a_character_that_no_font_has_is_a_square_and_is_explained(monkeypatch):
    monkeypatch.setattr(fonts, "_newly_installed", list)
    unassigned = "\U000e1234"
    found = drawable([f"a{unassigned}"])
    assert found.texts == ["a□"]
    assert found.missing == {unassigned}
    keys = tokens("a", unassigned, "dog")
    figure = record_map(written_down([WEIGHTS], queries=tokens("x", "y"), keys=keys))
    _brightness(figure)
    assert figure.axes[0].get_xticklabels()[1].get_text() == "□"
    assert "no installed font" in figure.axes[0].texts[0].get_text()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    honest = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return honest(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    for draw in (record_map, heads_grid):
        with pytest.raises(MissingExtra, match=r"pip install 'regard\[plots\]'"):
            draw(_record([WEIGHTS]))
