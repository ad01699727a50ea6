"""A contact sheet of a caption: the picture, then one panel a word with its map over the picture.

Coordinates are the original picture's: pixel i reaches from i to i + 1. What the model did not see
is hatched. overlays.py has the ways to draw a map over a picture.

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
from jaxtyping import UInt8

from regard.choices import find
from regard.data.boxes import Box
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.dead_maps import dead_maps
from regard.plots.fonts import MISSING, Labels, drawable
from regard.plots.heatmap import new_figure
from regard.plots.overlays import OVERLAYS, Grid, Overlay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PIXELS = 480
"""On a side of a panel: larger pictures are drawn smaller."""
MAX_SIDE_RATIO = 4.0
"""A picture longer than so many times its other side is squeezed to it."""
PANEL = 2.6
"""Square inches of a picture in a panel."""
NARROWEST, WIDEST = 1.25, 3.2
"""Inches; numbers need room above a high picture, and other panels beside a wide one."""
COLUMNS = 5
"""Panels in a row."""
BAR = 2.2
"""Inches of the bar with the colours."""
LETTER = 0.0085
"""Inches of a letter a point high."""


@dataclass(frozen=True)
class _Sheet:
    """The picture and the settings that all panels share."""

    pixels: UInt8[np.ndarray, "y x 3"]
    width: int
    height: int
    shown: Box
    overlay: Overlay

    @property
    def stretch(self) -> float:
        """The height of a drawn pixel over its width: very long pictures are squeezed."""
        aspect = self.width / self.height
        return aspect / _within(1 / MAX_SIDE_RATIO, aspect, MAX_SIDE_RATIO)

    def picture(self, ax: Axes, pixels: UInt8[np.ndarray, "y x 3"]) -> None:
        ax.imshow(pixels, extent=(0, self.width, self.height, 0), interpolation="antialiased")
        ax.set(xticks=[], yticks=[])

    def map(self, ax: Axes, cells: Grid) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        left, upper, right, lower = self.shown
        top = float(cells.max()) or 1.0
        share = np.clip(cells / top, 0.0, 1.0)
        ax.imshow(
            cells,
            cmap=LinearSegmentedColormap.from_list("map", self.overlay.ramp),
            vmin=0.0,
            vmax=top,
            alpha=self.overlay.density(share),
            extent=(left, right, lower, upper),
            interpolation="nearest",
        )

    def frame(self, ax: Axes) -> None:
        """Hatch what the model did not see, and limit the axis to the picture."""
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
    record: CaptionRecord,
    layer: int | None = None,
    head: int | None = None,
    *,
    overlay: str = "heat",
) -> Figure:
    """Draw a caption word by word; each title has the gate β and the map's entropy H.

    Where layer or head is None, the mean of all. Maps lie over the picture as "heat", "spotlight"
    or "cells"; a word's brightest colour is its own largest weight.
    """
    looks, picture = find(overlay, OVERLAYS, key="overlay"), record.picture
    sheet = _Sheet(_small(picture.pixels), picture.width, picture.height, record.covered, looks)
    maps = record.maps(layer, head)
    figure, panels, wide = _panels(len(maps) + 1, picture.width / picture.height)
    labels = drawable(record.words)
    sheet.picture(panels[0], sheet.pixels)
    sheet.frame(panels[0])
    squeezed = "" if sheet.stretch == 1 else ", squeezed"
    title = f"{picture.width} × {picture.height} pixels{squeezed}"
    panels[0].set_title(title, fontsize=7, pad=3)
    ground = looks.ground(sheet.pixels)
    for ax, one in zip(panels[1:], maps.double().numpy(), strict=True):
        sheet.picture(ax, ground)
        sheet.map(ax, looks.shape(one))
        sheet.frame(ax)
    spread = record.entropies(layer, head).tolist()
    gates = [f"β {gate:.2f} · " for gate in record.gates or ()] or [""] * len(spread)
    said = [f"{gate}H {entropy:.2f}" for gate, entropy in zip(gates, spread, strict=True)]
    _write_words(panels[1:], labels, said, wide)
    _bar(figure, panels, looks)
    notes = [
        f"{record.grid.rows} × {record.grid.columns} cells, {looks.note}",
        f"H: entropy in nats, {math.log(record.grid.n_cells):.2f} where all cells weigh the same",
        "β: how open the gate for the picture is" if record.gates else "",
        f"{MISSING}: no installed font has this character" if labels.missing else "",
    ]
    _footer(figure, " · ".join(filter(None, notes)), dead_maps(maps.flatten(1)))
    if record.caption:
        figure.suptitle(record.caption, fontsize="medium", parse_math=False)
    return figure


def _small(pixels: UInt8[np.ndarray, "y x 3"]) -> UInt8[np.ndarray, "v u 3"]:
    """A smaller picture with as many pixels as a panel can show, each a mean of the original's."""
    # every y-th row and x-th column suffice for so small a picture
    y, x = (max(1, side // (4 * MAX_PIXELS)) for side in pixels.shape[:2])
    few = torch.from_numpy(pixels[::y, ::x].copy()).permute(2, 0, 1).float()
    sides = (min(few.shape[1], MAX_PIXELS), min(few.shape[2], MAX_PIXELS))
    mean = torch.nn.functional.adaptive_avg_pool2d(few, sides)
    return mean.round().byte().permute(1, 2, 0).numpy()


def _panels(count: int, aspect: float) -> tuple[Figure, list[Axes], float]:
    """A figure with an axis for each of `count` panels, and their width in inches."""
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    aspect = _within(1 / MAX_SIDE_RATIO, aspect, MAX_SIDE_RATIO)
    wide = _within(NARROWEST, math.sqrt(PANEL * aspect), WIDEST)
    figure = new_figure((wide + 0.12) * columns, (wide / aspect + 0.45) * rows + 0.9)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes[:count], wide


def _within(low: float, number: float, high: float) -> float:
    return min(max(number, low), high)


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


def _bar(figure: Figure, panels: Sequence[Axes], looks: Overlay) -> None:
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
        ticks=[0, 1],
    )
    bar.set_ticklabels(["0", "the word's largest"])
    bar.ax.tick_params(labelsize=7)
    bar.set_label("weight of a cell", fontsize=7)


def _footer(figure: Figure, said: str, warning: str) -> None:
    across = max(30, int(figure.get_figwidth() / 0.062))
    lines = [line for text in (warning, said) for line in textwrap.wrap(text, across)]
    figure.supxlabel("\n".join(lines), fontsize=7, fontweight="bold" if warning else "normal")
