"""A heat map as a figure: queries down, keys across, one colour scale from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def heatmap(
    weights: Float[Tensor, "q k"],
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
    row_title: str = "queries",
    column_title: str = "keys",
    meaning: str = "weight",
    ax: Axes | None = None,
) -> Figure:
    """Draw weights; numbers below zero turn the scale into a two-sided one.

    Args:
        weights: one head's weights, or any matrix from -1 to 1.
        queries: names of the rows.
        keys: names of the columns.
        row_title: what the rows are.
        column_title: what the columns are.
        meaning: what a number is.
        ax: draw here instead of on a new figure.
    """
    figure, ax = (_figure_of(ax), ax) if ax is not None else _new_figure(weights)
    is_signed = bool((weights < 0).any())
    image = ax.imshow(
        weights.detach().cpu().numpy(),
        cmap="RdBu" if is_signed else "cividis",
        vmin=-1.0 if is_signed else 0.0,
        vmax=1.0 if is_signed else max(float(weights.max()), 1e-9),
        aspect="equal",
    )
    ax.set_ylabel(row_title)
    ax.set_xlabel(column_title)
    for names, set_ticks in ((queries, ax.set_yticks), (keys, ax.set_xticks)):
        if names:
            set_ticks(range(len(names)), names)
    bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    bar.set_label(meaning)
    return figure


def _new_figure(weights: Tensor) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtra(
            "plots: matplotlib is not installed. Run pip install 'regard[plots]', or draw in the "
            "terminal with regard.plots.shade."
        ) from missing
    rows, columns = weights.shape
    size = (2.2 + 2.4 * min(2.0, columns / rows), 2.9)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.add_subplot()


def _figure_of(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure
