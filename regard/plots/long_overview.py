"""A whole document in one picture: what a 50,000 × 50,000 map looks like from above.

Every pixel is the heaviest cell beneath it, as lift: weight times the number of keys that its query
may see, so that 1 is a query that looks everywhere alike, whatever the length. Colours go by the
logarithm; what no query may see is grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.choices import find
from regard.inspecting.panels import View
from regard.inspecting.record import Attention, Record
from regard.inspecting.scales import scaled
from regard.inspecting.tiles import PIXELS, Head, Pyramid
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

    Args:
        record: what to draw.
        view: which kind, layer and head; the mean over heads, and over layers, where they are not
            said. Pieces are drawn, whatever its unit.
        rows: queries of each pixel that are looked at where there are many; None for all.
        ax: draw here instead of on a new figure.
    """
    one = find(view.kind, record.attention)
    lift, masked, is_exact, used = _seen(one, view, rows)
    figure, ax = on_axis(ax, 7.4, 6.6)
    from matplotlib.colors import LogNorm

    pyramid = Pyramid(one.layers[0])
    high, wide = pyramid.height(0), pyramid.scale(0)
    edges = (-0.5, wide * lift.shape[1] - 0.5, high * lift.shape[0] - 0.5, -0.5)
    shown = np.ma.masked_array(np.clip(lift, LEAST, None), masked)
    ax.set_facecolor("#b9b9b9")
    image = ax.imshow(
        shown, cmap="cividis", norm=LogNorm(LEAST, MOST), extent=edges, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    ax.set(xlim=(-0.5, len(one.keys) - 0.5), ylim=(len(one.queries) - 0.5, -0.5))
    ax.set_ylabel(f"{one.query_title}, {len(one.queries):,} pieces")
    ax.set_xlabel(f"{one.key_title}, {len(one.keys):,} pieces")
    how = "every query" if is_exact else f"{used} of {high} queries a pixel"
    ax.set_title(f"{record.title(view)}\n{how}; grey is masked", fontsize="medium")
    bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02, extend="both")
    bar.set_label("lift of the heaviest cell (1 = looks everywhere alike)")
    return figure


def _seen(
    one: Attention, view: View, rows: int | None
) -> tuple[Float[np.ndarray, "r c"], np.ndarray, bool, int]:
    """Lift and mask of the whole matrix, whether every row was used, and how many were."""
    layers = range(len(one.layers)) if view.layer is None else [view.layer]
    head: Head = "mean" if view.head is None else view.head
    total, used, is_exact = np.zeros((PIXELS, PIXELS)), 0, True
    for layer in layers:
        pyramid = Pyramid(one.layers[layer])
        tile = pyramid.tile(head, 0, 0, 0, "max", rows)
        total += scaled(tile.values, pyramid.allowed(0, 0), "lift")
        used, is_exact = tile.rows_used, is_exact and tile.is_exact
    high, wide = pyramid.height(0), pyramid.scale(0)
    inside = np.s_[: -(-len(one.queries) // high), : -(-len(one.keys) // wide)]
    masked = ~pyramid.visible(0, 0, 0)
    return total[inside] / len(layers), masked[inside], is_exact, used
