"""A heat map as a figure: queries down, keys across, one colour scale from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.errors import MissingExtra
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record
from regard.plots.fonts import Labels, drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 80
"""The most rows or columns that have their names beside them; longer texts are pooled."""
BINS = 512
"""Rows and columns of a pooled picture."""
NUMBERED = 12
"""Up to so many rows and columns the numbers stand in the cells."""
BRIGHT = 0.45
"""From this share of the scale on, a number is written in black."""


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
    rows, columns = weights.shape
    figure, ax = on_axis(ax, 2.2 + 2.4 * min(2.0, columns / rows), 2.9)
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
    # a token with two dollar signs is no formula
    for names, set_ticks in ((queries, ax.set_yticks), (keys, ax.set_xticks)):
        if names:
            set_ticks(range(len(names)), names, parse_math=False)
    bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    bar.set_label(meaning)
    return figure


def record_map(record: Record, view: View = OVERVIEW, *, ax: Axes | None = None) -> Figure:
    """Draw one view of a record, its tokens beside it; a long text is pooled and has no names.

    Args:
        record: what to draw.
        view: which kind, layer, head and unit.
        ax: draw here instead of on a new figure.
    """
    is_long = max(record.shape(view)) > NAMED
    figure, ax = _pooled_map(record, view, ax) if is_long else _named_map(record, view, ax)
    ax.set_title(record.title(view), fontsize="medium")
    return figure


def on_axis(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The axis to draw on and its figure; a new one of this size in inches unless given."""
    if ax is None:
        figure = new_figure(width, height)
        return figure, figure.add_subplot()
    owner = ax.get_figure(root=True)
    assert owner is not None
    return owner, ax


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in nobody's way: no window, no global setting."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtra(
            "plots: matplotlib is not installed. Run pip install 'regard[plots]', or draw in the "
            "terminal with regard.plots.shade."
        ) from missing
    return Figure(figsize=(width, height), layout="constrained")


def _named_map(record: Record, view: View, ax: Axes | None) -> tuple[Figure, Axes]:
    panel = record.panel(view)
    rows, columns = panel.weights.shape
    has_numbers = max(rows, columns) <= NUMBERED
    cell = 0.46 if has_numbers else 0.22
    figure, ax = on_axis(ax, 2.4 + cell * max(columns, 6), 1.5 + cell * max(rows, 5))
    labels = drawable([*panel.queries, *panel.keys])
    heatmap(
        panel.weights,
        queries=labels.texts[:rows],
        keys=labels.texts[rows:],
        row_title=panel.query_title,
        column_title=panel.key_title,
        ax=ax,
    )
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        tick.set_fontfamily(labels.families)
        tick.set_fontsize("medium" if has_numbers else "small")
    for tick in ax.get_xticklabels():
        # a label that is wider than its column stands upright
        if len(tick.get_text()) * 0.08 > cell:
            tick.set(rotation=90)
    ax.set_aspect("auto")
    note_missing(ax, labels)
    if has_numbers:
        _write_numbers(ax, panel.weights)
    return figure, ax


def name_axes(ax: Axes, panel: Panel) -> None:
    """Name rows and columns after a panel's tokens; long sides have none."""
    labels = drawable([*panel.queries, *panel.keys])
    ax.set_ylabel(panel.query_title)
    ax.set_xlabel(panel.key_title)
    split = len(panel.queries)
    sides = (labels.texts[:split], ax.set_yticks), (labels.texts[split:], ax.set_xticks)
    for texts, set_ticks in sides:
        if len(texts) <= NAMED:
            set_ticks(range(len(texts)), texts, parse_math=False)
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        tick.set_fontfamily(labels.families)
        tick.set_fontsize("small")
    ax.tick_params(axis="x", rotation=90)
    note_missing(ax, labels)


def note_missing(ax: Axes, labels: Labels) -> None:
    """Say what a box in a label is, where there is one."""
    if labels.missing:
        ax.annotate(
            "□: no installed font has this character", (0, 0), (0, -2), xycoords="figure points",
            textcoords="offset points", fontsize="x-small", va="bottom",
        )  # fmt: skip


def _pooled_map(record: Record, view: View, ax: Axes | None) -> tuple[Figure, Axes]:
    one = record.attention[view.kind]
    weights = record.pooled(view, BINS)
    figure, ax = on_axis(ax, 7.0, 6.0)
    sizes = zip((one.queries, one.keys), weights.shape, strict=True)
    rows, columns = (f"{len(tokens):,} pieces in {bins} bins" for tokens, bins in sizes)
    heatmap(
        weights,
        row_title=f"{one.query_title}, {rows}",
        column_title=f"{one.key_title}, {columns}",
        meaning="weight of a bin (mean of its rows, sum of its columns)",
        ax=ax,
    )
    ax.set_aspect("auto")
    return figure, ax


def _write_numbers(ax: Axes, weights: Float[Tensor, "q k"]) -> None:
    top = float(weights.max()) or 1.0
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            ink = "black" if weight / top > BRIGHT else "white"
            ax.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=ink)
