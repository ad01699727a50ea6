"""A contact sheet of a caption: the picture, then one panel a word with its map over the picture.

Coordinates are the original picture's: pixel i reaches from i to i + 1. What the model did not see
is hatched. How a map may lie over the picture is in overlays.py.

Paper: Xu et al. 2015, figures 2 to 5.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.choices import find
from regard.data.boxes import Box
from regard.errors import SettingError, ShapeError
from regard.inspecting.dead_maps import dead_maps, entropies
from regard.plots.fonts import MISSING, Labels, drawable
from regard.plots.heatmap import new_figure
from regard.plots.overlays import OVERLAYS, SCALES, Grid, Overlay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PIXELS = 480
"""On a side of a panel: larger pictures are drawn smaller."""
LONGEST = 4.0
"""A picture longer than so many times its other side is squeezed to it."""
PANEL = 2.6
"""Square inches of a picture in a panel."""
NARROWEST, WIDEST = 1.25, 3.2
"""Inches; numbers need room above a high picture, and other panels beside a wide one."""
BAR = 2.2
"""Inches of the bar with the colours."""
LETTER = 0.0085
"""Inches of a letter a point high."""


@dataclass(frozen=True)
class _Sheet:
    """What every panel needs."""

    pixels: UInt8[np.ndarray, "y x 3"]
    width: int
    height: int
    shown: Box
    overlay: Overlay

    @property
    def stretch(self) -> float:
        """How much higher a pixel is drawn than it is wide: a very long picture is squeezed."""
        aspect = self.width / self.height
        return aspect / _within(1 / LONGEST, aspect, LONGEST)

    def picture(self, ax: Axes, pixels: UInt8[np.ndarray, "y x 3"]) -> None:
        ax.imshow(pixels, extent=(0, self.width, self.height, 0), interpolation="antialiased")
        ax.set(xticks=[], yticks=[])

    def map(self, ax: Axes, cells: Grid, top: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        left, upper, right, lower = self.shown
        share = np.clip(cells / (top or 1.0), 0.0, 1.0)
        ax.imshow(
            cells,
            cmap=LinearSegmentedColormap.from_list("map", self.overlay.ramp),
            vmin=0.0,
            vmax=top or 1.0,
            alpha=self.overlay.density(share),
            extent=(left, right, lower, upper),
            interpolation="nearest",
        )

    def frame(self, ax: Axes) -> None:
        """Hatch what the model was not shown, and show the picture, no more."""
        from matplotlib.patches import Rectangle

        left, top, right, bottom = self.shown
        for x, y, end, low in (
            (0, 0, self.width, top),
            (0, bottom, self.width, self.height),
            (0, top, left, bottom),
            (right, top, self.width, bottom),
        ):
            if end > x and low > y:
                veil = Rectangle((x, y), end - x, low - y, hatch="////", linewidth=0)
                veil.set(facecolor="#6c6c6c98", edgecolor="#404040")
                ax.add_patch(veil)
        ax.set(xlim=(0, self.width), ylim=(self.height, 0), aspect=self.stretch)


def caption_sheet(
    pixels: UInt8[np.ndarray, "y x 3"],
    words: Sequence[str],
    maps: Float[Tensor, "t l"],
    *,
    grid: tuple[int, int],
    shown: Box | None = None,
    size: tuple[int, int] | None = None,
    gates: Sequence[float | int] = (),
    overlay: str = "heat",
    scale: str = "word",
    columns: int = 5,
    title: str = "",
) -> Figure:
    """Draw a caption word by word; each title has the gate β and the map's entropy H.

    Args:
        pixels: the original picture.
        words: the caption, as it should be read.
        maps: a row a word, a column a cell, row by row of the grid.
        grid: rows and columns of the cells.
        shown: the part of the picture that the model saw, in its pixels; all of it unless given.
        size: width and height of the picture, where `pixels` are fewer.
        gates: β of each word, where the model has a gate.
        overlay: "heat", "spotlight" or "cells".
        scale: the brightest colour is the largest weight of the "word" or of the whole "caption".
        columns: panels in a row.
        title: stands above the sheet.
    """
    looks, scaling = find(overlay, OVERLAYS, key="overlay"), find(scale, SCALES, key="scale")
    _check(words, maps, grid, gates, columns)
    width, height = size or (pixels.shape[1], pixels.shape[0])
    sheet = _Sheet(
        _small(pixels), width, height, shown or Box(0.0, 0.0, float(width), float(height)), looks
    )
    cells = maps.detach().cpu().double().numpy().reshape(len(words), *grid)
    drawn = [looks.shape(one) for one in cells]
    figure, panels, wide = _panels(len(words) + 1, columns, width / height)
    tops, labels = scaling.tops(drawn), drawable(words)
    sheet.picture(panels[0], sheet.pixels)
    sheet.frame(panels[0])
    squeezed = "" if sheet.stretch == 1 else ", squeezed"
    panels[0].set_title(f"{width} × {height} pixels{squeezed}", fontsize=7, pad=3)
    ground = looks.ground(sheet.pixels)
    for ax, one, top in zip(panels[1:], drawn, tops, strict=True):
        sheet.picture(ax, ground)
        sheet.map(ax, one, top)
        sheet.frame(ax)
    _write_words(panels[1:], labels, _numbers(maps, gates), wide)
    _bar(figure, panels, looks, scaling.marks(tops))
    said = [
        f"{grid[0]} × {grid[1]} cells, {looks.said}",
        f"H: entropy in nats, {math.log(maps.shape[1]):.2f} where all cells weigh the same",
        "β: how open the gate for the picture is" if gates else "",
        f"{MISSING}: no installed font has this character" if labels.missing else "",
    ]
    _footer(figure, " · ".join(filter(None, said)), dead_maps(maps))
    if title:
        figure.suptitle(title, fontsize="medium", parse_math=False)
    return figure


def _check(
    words: Sequence[str],
    maps: Float[Tensor, "t l"],
    grid: tuple[int, int],
    gates: Sequence[float | int],
    columns: int,
) -> None:
    n_words, n_cells = maps.shape
    if len(words) != n_words or grid[0] * grid[1] != n_cells or len(gates) not in (0, n_words):
        raise ShapeError(
            f"caption_sheet: expected a word (and a gate, if any) for each of {n_words} maps and a "
            f"grid of {n_cells} cells, got {len(words)} words, {len(gates)} gates and a grid of "
            f"{grid[0]} by {grid[1]}."
        )
    if columns < 1:
        raise SettingError(f"caption_sheet: columns must be at least 1, got {columns}.")


def _small(pixels: UInt8[np.ndarray, "y x 3"]) -> UInt8[np.ndarray, "v u 3"]:
    """As many pixels as a panel can show, each the mean of those it stands for."""
    # rows and columns that nobody could see are not even read
    y, x = (max(1, side // (4 * MOST_PIXELS)) for side in pixels.shape[:2])
    few = torch.from_numpy(pixels[::y, ::x].copy()).permute(2, 0, 1).float()
    sides = (min(few.shape[1], MOST_PIXELS), min(few.shape[2], MOST_PIXELS))
    mean = torch.nn.functional.adaptive_avg_pool2d(few, sides)
    return mean.round().byte().permute(1, 2, 0).numpy()


def _panels(count: int, columns: int, aspect: float) -> tuple[Figure, list[Axes], float]:
    """A figure with an axis for each of `count` panels, and their width in inches."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    aspect = _within(1 / LONGEST, aspect, LONGEST)
    wide = _within(NARROWEST, math.sqrt(PANEL * aspect), WIDEST)
    figure = new_figure((wide + 0.12) * columns, (wide / aspect + 0.45) * rows + 0.9)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes[:count], wide


def _within(low: float, number: float, high: float) -> float:
    return min(max(number, low), high)


def _numbers(maps: Float[Tensor, "t l"], gates: Sequence[float | int]) -> list[str]:
    said = [f"H {entropy:.2f}" for entropy in entropies(maps).tolist()]
    return [f"β {gates[i]:.2f} · {one}" for i, one in enumerate(said)] if gates else said


def _write_words(
    panels: Sequence[Axes], labels: Labels, numbers: Sequence[str], wide: float
) -> None:
    for ax, word, said in zip(panels, labels.texts, numbers, strict=True):
        ax.set_title(said, fontsize=7, pad=3)
        points = _within(6.0, wide / LETTER / max(len(word), 1), 10.0)
        most = max(1, int(wide / LETTER / points))
        ax.annotate(
            word if len(word) <= most else f"{word[: most - 1]}…",
            (0.5, 1.0),
            (0, 12),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=points,
            fontfamily=labels.families,
            parse_math=False,
        )


def _bar(figure: Figure, panels: Sequence[Axes], looks: Overlay, marks: Sequence[str]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    width, height = figure.get_size_inches()
    bar = figure.colorbar(
        ScalarMappable(cmap=LinearSegmentedColormap.from_list("key", looks.key)),
        ax=panels,
        location="bottom",
        shrink=min(1.0, BAR / width),
        aspect=BAR / 0.1,
        pad=0.1 / height,
        ticks=np.linspace(0, 1, len(marks)),
    )
    bar.set_ticklabels(list(marks))
    bar.ax.tick_params(labelsize=7)
    bar.set_label("weight of a cell", fontsize=7)


def _footer(figure: Figure, said: str, warning: str) -> None:
    across = max(30, int(figure.get_figwidth() / 0.062))
    lines = [line for text in (warning, said) for line in textwrap.wrap(text, across)]
    figure.supxlabel("\n".join(lines), fontsize=7, fontweight="bold" if warning else "normal")
