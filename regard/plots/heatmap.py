"""A heat map as a figure: queries down, keys across, one colour scale from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.errors import MissingExtra, SettingError, ShapeError, counted
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record, check_is_record
from regard.plots.colours import ink, weight_colours
from regard.plots.fonts import MISSING, Labels, drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NAME = 24
"""Letters of a row's or column's name; a longer one is cut."""

MAX_NAMED_ROWS = 80
"""The most rows or columns that have their names beside them; longer texts are pooled."""
BINS = 512
"""Rows and columns of a pooled picture."""
NUMBERED = 12
"""The most rows and columns of a picture that has its numbers in the cells."""
LETTER = 0.08
"""About the width of a letter, in inches."""


def heatmap(
    weights: Float[Tensor, "q k"],
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
    row_title: str = "queries",
    column_title: str = "keys",
    meaning: str = "weight",
    colours: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one head's weights, or any matrix from -1 to 1, with the names of its rows and columns.

    Numbers below zero turn the scale into a two-sided one. `colours` names a colour map of
    matplotlib; weights have regard's own unless one is given, and 0 is white in it.
    """
    _check_matrix(weights)
    rows, columns = weights.shape
    for side, names, count in (("queries", queries, rows), ("keys", keys, columns)):
        _check_names(side, names, count)
    figure, ax = on_axis(ax, 2.2 + 2.4 * min(2.0, columns / rows), 2.9)
    is_signed = bool((weights < 0).any())
    image = ax.imshow(
        weights.detach().cpu().numpy(),
        cmap=colours or ("RdBu" if is_signed else weight_colours()),
        vmin=-1.0 if is_signed else 0.0,
        vmax=1.0 if is_signed else max(float(weights.max()), 1e-9),
        aspect="equal",
    )
    ax.set_ylabel(row_title)
    ax.set_xlabel(column_title)
    for names, set_ticks in ((queries, ax.set_yticks), (keys, ax.set_xticks)):
        if names:
            short = [_shortened(name) for name in names]
            set_ticks(range(len(names)), short, parse_math=False)
    figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label=meaning)
    return figure


def _check_matrix(weights: object) -> None:
    """Refuse what is no matrix, with the way to one."""
    if isinstance(weights, Tensor) and weights.dim() == 2:
        return
    if isinstance(weights, Tensor):
        got = f"shape {tuple(weights.shape)}. Take one head of one sentence: weights[0, 0]"
    else:
        got = f"an object of {type(weights).__name__}. Of an attention write attended.map.dense()"
    raise ShapeError(f"heatmap: expected a matrix (queries, keys) as a tensor, got {got}.")


def _check_names(side: str, names: Sequence[str], count: int) -> None:
    """Refuse names that are not one for each row or column."""
    if isinstance(names, str):
        raise SettingError(
            f"heatmap: {side} must be a list of names, got the text {names!r:.40}. Write "
            f"{side}=text.split()."
        )
    if names and len(names) != count:
        raise ShapeError(
            f"heatmap: {counted(len(names), 'name')} for {count} {side}. Give each its name, or "
            "none a name."
        )


def record_map(
    record: Record,
    view: View = OVERVIEW,
    *,
    colours: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one view of a record, its tokens beside it; a long text is pooled and has no names."""
    check_is_record("record_map", record)
    is_long = max(record.shape(view)) > MAX_NAMED_ROWS
    draw = _pooled_map if is_long else _named_map
    figure, ax = draw(record, view, colours, ax)
    ax.set_aspect("auto")
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
    """An empty figure; it opens no window and changes no setting of matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtra(
            "plots: matplotlib is not installed. Run pip install 'regard[plots]', or draw in the "
            "terminal with regard.plots.shade."
        ) from missing
    return Figure(figsize=(width, height), layout="constrained")


def name_axes(ax: Axes, panel: Panel, *, size: str = "small", room: float = 0.0) -> None:
    """Label rows and columns with tokens, in fonts that have them; long sides are not labelled.

    Names of columns stand upright, all of them, unless each fits the inches of `room` that a column
    has.
    """
    ax.set(ylabel=panel.query_title, xlabel=panel.key_title)
    labels = drawable([_shortened(name) for name in (*panel.queries, *panel.keys)])
    split = len(panel.queries)
    for texts, axis in ((labels.texts[:split], ax.yaxis), (labels.texts[split:], ax.xaxis)):
        if len(texts) <= MAX_NAMED_ROWS:
            # without this, matplotlib reads a token with two dollar signs as a formula
            axis.set_ticks(range(len(texts)), texts, parse_math=False, family=labels.families)
    ax.tick_params(labelsize=size)
    if any(len(text) * LETTER > room for text in labels.texts[split:]):
        ax.tick_params(axis="x", rotation=90)
    note_missing(ax, labels)


def _shortened(name: str) -> str:
    """A name that leaves room for the map."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def note_missing(ax: Axes, labels: Labels) -> None:
    """Add a note on characters that no font has, if a label holds any."""
    if labels.missing:
        ax.annotate(
            f"{MISSING}: no installed font has this character", (0, 0), (0, -2),
            xycoords="figure points", textcoords="offset points", fontsize="x-small", va="bottom",
        )  # fmt: skip


def write_numbers(ax: Axes, numbers: Float[Tensor, "q k"], *, top: float, size: int = 7) -> None:
    """Write each number into its cell, in black or white, whichever reads better there."""
    colours = ax.images[0].get_cmap()
    for row, line in enumerate(numbers.tolist()):
        for column, number in enumerate(line):
            red, green, blue, _ = colours(number / top, bytes=True)
            written = "black" if ink((int(red), int(green), int(blue))) == (0, 0, 0) else "white"
            text = f"{number:.2f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=size, color=written)


def _named_map(
    record: Record, view: View, colours: str | None, ax: Axes | None
) -> tuple[Figure, Axes]:
    panel = record.panel(view)
    rows, columns = panel.weights.shape
    has_numbers = max(rows, columns) <= NUMBERED
    cell = 0.46 if has_numbers else 0.22
    figure, ax = on_axis(ax, 2.4 + cell * max(columns, 6), 1.5 + cell * max(rows, 5))
    heatmap(panel.weights, colours=colours, ax=ax)
    name_axes(ax, panel, size="medium" if has_numbers else "small", room=cell)
    if has_numbers:
        write_numbers(ax, panel.weights, top=panel.top)
    return figure, ax


def _pooled_map(
    record: Record, view: View, colours: str | None, ax: Axes | None
) -> tuple[Figure, Axes]:
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
        colours=colours,
        ax=ax,
    )
    return figure, ax
