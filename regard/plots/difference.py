"""Two records side by side: the same view of each, and where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.errors import ShapeError
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record
from regard.plots.colours import weight_colours
from regard.plots.heatmap import MAX_NAMED_ROWS, name_axes, new_figure, on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def difference_map(
    record: Record, other: Record, view: View = OVERVIEW, *, ax: Axes | None = None
) -> Figure:
    """Draw the first record's weights less the second's: red is more in the first."""
    first, second = record.panel(view), other.panel(view)
    if _tokens(first) != _tokens(second):
        raise ShapeError(
            f"difference: the two records have {len(first.queries)} × {len(first.keys)} and "
            f"{len(second.queries)} × {len(second.keys)} tokens, or other ones; expected the same. "
            "Look at both with the same target, or draw them side by side (comparison_plot)."
        )
    figure, ax = on_axis(ax, *_size(first))
    apart = first.weights - second.weights
    top = max(float(apart.abs().max()), 1e-9)
    image = ax.imshow(apart.numpy(), cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
    name_axes(ax, first)
    ax.set_title(f"{first.title}: difference", fontsize="medium")
    figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label="weight, first less second")
    return figure


def comparison_plot(
    record: Record,
    other: Record,
    view: View = OVERVIEW,
    *,
    names: tuple[str, str] = ("first", "second"),
    figure: Figure | None = None,
) -> Figure:
    """Draw both records on one scale and, where their tokens are the same, their difference."""
    first, second = record.panel(view), other.panel(view)
    is_alike = _tokens(first) == _tokens(second)
    sizes = [_size(panel) for panel in (first, second, *([first] * is_alike))]
    figure = figure or new_figure(sum(wide for wide, _ in sizes), max(high for _, high in sizes))
    axes = figure.subplots(1, len(sizes), squeeze=False)[0]
    top = max(first.top, second.top)
    for ax, panel, name in zip(axes, (first, second), names, strict=False):
        image = ax.imshow(
            panel.weights.numpy(), cmap=weight_colours(), vmin=0.0, vmax=top, aspect="auto"
        )
        name_axes(ax, panel)
        ax.set_title(name, fontsize="medium")
    figure.colorbar(image, ax=list(axes[:2]), fraction=0.046, pad=0.02, label="weight")
    if is_alike:
        difference_map(record, other, view, ax=axes[2])
        axes[2].set_title(f"{names[0]} less {names[1]}", fontsize="medium")
    figure.suptitle(first.title, fontsize="medium")
    return figure


def _tokens(panel: Panel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return panel.queries, panel.keys


def _size(panel: Panel) -> tuple[float, float]:
    rows, columns = (min(len(side), MAX_NAMED_ROWS) for side in (panel.queries, panel.keys))
    return 2.2 + 0.24 * max(columns, 8), 1.6 + 0.24 * max(rows, 6)
