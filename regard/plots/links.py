"""Two rows of words with curves between them: which source words each target word looks at.

Of each query the fewest links are drawn that together hold a share of its weight, and never more
than a few. Wider and darker is heavier; the legend says how wide what weight is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.errors import LengthError, SettingError
from regard.inspecting.panels import OVERVIEW, Link, Panel, View
from regard.inspecting.record import Record
from regard.plots.fonts import drawable
from regard.plots.heatmap import note_missing, on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 60
"""The most words on a side; curves between more cannot be followed."""
MOST = 5
"""The most links of one query."""
COLOUR = "#105ea0"
SHOWN = (0.25, 0.5, 1.0)
"""Weights in the legend."""


def heaviest_links(
    weights: Float[Tensor, "q k"], *, mass: float = 0.8, most: int = MOST
) -> list[Link]:
    """Of each row the fewest links that hold a share of its weight.

    >>> import torch
    >>> heaviest_links(torch.tensor([[0.625, 0.25, 0.125]]))
    [Link(query=0, key=0, weight=0.625), Link(query=0, key=1, weight=0.25)]

    Args:
        weights: a row a query.
        mass: the share, from 0 to 1.
        most: the most links of one row, whatever they hold.
    """
    if not 0 < mass <= 1:
        raise SettingError(f"links: mass lies above 0 and up to 1, got {mass}.")
    links = []
    for query, row in enumerate(weights.tolist()):
        wanted, held = mass * sum(row), 0.0
        for key in sorted(range(len(row)), key=lambda key: -row[key])[:most]:
            if held >= wanted or row[key] <= 0:
                break
            links.append(Link(query, key, row[key]))
            held += row[key]
    return links


def links_plot(
    record: Record, view: View = OVERVIEW, *, mass: float = 0.8, ax: Axes | None = None
) -> Figure:
    """Draw the links of one view: queries above, keys below.

    Args:
        record: what to draw.
        view: which kind, layer, head and unit.
        mass: the share of each query's weight whose links are drawn, heaviest first.
        ax: draw here instead of on a new figure.
    """
    panel = _short(record.panel(view))
    longest = max(len(panel.queries), len(panel.keys))
    lengths = [len(name) for name in (*panel.queries, *panel.keys)]
    each = 0.18 + 0.1 * min(sum(lengths) / len(lengths), 12)
    figure, ax = on_axis(ax, 1.6 + each * longest, 3.4)
    # both rows are as wide as the longer one
    ends = [_places(len(side), longest) for side in (panel.queries, panel.keys)]
    for link in heaviest_links(panel.weights, mass=mass):
        _curve(ax, ends[0][link.query], ends[1][link.key], link.weight)
    _words(ax, panel, ends)
    ax.set(xlim=(-0.7, longest - 0.3), ylim=(-0.28, 1.28), xticks=[], yticks=[])
    ax.set_title(panel.title, fontsize="medium")
    ax.set_ylabel(f"{panel.key_title} below, {panel.query_title} above", fontsize="x-small")
    ax.spines[:].set_visible(False)
    _legend(ax, mass)
    return figure


def _short(panel: Panel) -> Panel:
    longest = max(len(panel.queries), len(panel.keys))
    if longest > LONGEST:
        raise LengthError(
            f"links: {longest} words on a side are too many for curves; at most {LONGEST}. Draw a "
            "heat map (record_map) or the whole document (long_overview)."
        )
    return panel


def _places(count: int, longest: int) -> list[float]:
    if count == 1:
        return [(longest - 1) / 2]
    return [place * (longest - 1) / (count - 1) for place in range(count)]


def _curve(ax: Axes, query: float, key: float, weight: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [(query, 1.0), (query, 0.66), (key, 0.34), (key, 0.0)]
    way = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    width, alpha = _style(weight)
    ax.add_patch(
        PathPatch(
            way, facecolor="none", edgecolor=COLOUR, capstyle="round", linewidth=width, alpha=alpha
        )
    )


def _style(weight: float) -> tuple[float, float]:
    """How wide a link is, and how dark."""
    return 0.5 + 5 * min(weight, 1.0), 0.15 + 0.85 * min(weight, 1.0)


def _words(ax: Axes, panel: Panel, ends: list[list[float]]) -> None:
    labels = drawable([*panel.queries, *panel.keys])
    above = labels.texts[: len(panel.queries)], ends[0], 1.04, "bottom"
    below = labels.texts[len(panel.queries) :], ends[1], -0.04, "top"
    for texts, places, y, side in (above, below):
        for text, x in zip(texts, places, strict=True):
            shown = text if len(text) <= 14 else text[:13] + "…"
            ax.text(
                x, y, shown, ha="center", va=side, fontsize="small", parse_math=False,
                fontfamily=labels.families,
            )  # fmt: skip
    note_missing(ax, labels)


def _legend(ax: Axes, mass: float) -> None:
    from matplotlib.lines import Line2D

    lines = []
    for weight in SHOWN:
        width, alpha = _style(weight)
        lines.append(
            Line2D(
                [],
                [],
                color=COLOUR,
                solid_capstyle="round",
                label=f"{weight:g}",
                linewidth=width,
                alpha=alpha,
            )
        )
    ax.legend(
        handles=lines, title=f"weight; links that hold {100 * mass:g} % of each query's",
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(lines), frameon=False,
        fontsize="x-small", title_fontsize="x-small",
    )  # fmt: skip
