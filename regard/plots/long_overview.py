"""An overview of a whole document's map, such as 50,000 × 50,000 weights, in one picture.

Every pixel is the heaviest cell beneath it, as lift: weight times the number of keys that its query
may see, so that uniform attention has lift 1 at any length. The colour scale is logarithmic; masked
pixels are grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.choices import find
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.inspecting.tiles import Pyramid
from regard.plots.colours import weight_colours
from regard.plots.heatmap import on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST, MOST = 0.1, 1000.0
"""The lifts between which colours differ."""
WHOLE = View("encoder")


def long_overview(
    record: Record, view: View = WHOLE, *, rows: int | None = 4, ax: Axes | None = None
) -> Figure:
    """Draw one layer and head of a document of any length.

    A view without layer or head gives the mean over them. Pieces are drawn, whatever the unit.
    Where a pixel has many queries, `rows` of them are used; with None, all.
    """
    from matplotlib.colors import LogNorm

    one = find(view.kind, record.attention)
    layers = one.layers if view.layer is None else one.layers[view.layer : view.layer + 1]
    pyramids = [Pyramid(layer) for layer in layers]
    head = "mean" if view.head is None else view.head
    tiles = [pyramid.tile(head, 0, 0, 0, "max", rows) for pyramid in pyramids]
    lifts = [
        tile.values * pyramid.allowed(0, 0)[:, None]
        for tile, pyramid in zip(tiles, pyramids, strict=True)
    ]
    high, wide = pyramids[0].height(0), pyramids[0].scale(0)
    inside = np.s_[: -(-len(one.queries) // high), : -(-len(one.keys) // wide)]
    lift = np.asarray(np.mean(lifts, axis=0, dtype=np.float64))[inside]
    masked = ~pyramids[-1].visible(0, 0, 0)[inside]
    figure, ax = on_axis(ax, 7.4, 6.6)
    edges = (-0.5, wide * lift.shape[1] - 0.5, high * lift.shape[0] - 0.5, -0.5)
    shown = np.ma.masked_array(np.clip(lift, LEAST, None), masked)
    ax.set_facecolor("#b9b9b9")
    image = ax.imshow(
        shown, cmap=weight_colours(), norm=LogNorm(LEAST, MOST), extent=edges, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    ax.set(xlim=(-0.5, len(one.keys) - 0.5), ylim=(len(one.queries) - 0.5, -0.5))
    ax.set_ylabel(f"{one.query_title}, {len(one.queries):,} pieces")
    ax.set_xlabel(f"{one.key_title}, {len(one.keys):,} pieces")
    is_exact = all(tile.is_exact for tile in tiles)
    how = "every query" if is_exact else f"{tiles[-1].rows_used} of {high} queries a pixel"
    ax.set_title(f"{record.title(view)}\n{how}; grey is masked", fontsize="medium")
    bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02, extend="both")
    bar.set_label("lift of the heaviest cell (1 = looks everywhere alike)")
    return figure
