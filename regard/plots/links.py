"""Two rows of words with curves between them: which source words each target word looks at.

For each query the fewest links are drawn that together hold a share of its weight, up to a maximum
number. Heavier links are wider and darker; the legend shows the widths of some weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from regard.errors import LengthError, SettingError
from regard.inspecting.panels import OVERVIEW, Link, View
from regard.inspecting.record import Record, check_is_record
from regard.plots.fonts import Labels, drawable
from regard.plots.heatmap import note_missing, on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINK_WORDS = 60
"""The most words on a side; curves between more of them are unreadable."""
MAX_LINKS_PER_QUERY = 5
"""The most links of one query."""
COLOUR = "#105ea0"
LEGEND_WEIGHTS = (0.25, 0.5, 1.0)
"""Weights in the legend."""


def heaviest_links(
    weights: Float[Tensor, "q k"], *, mass: float = 0.8, most: int = MAX_LINKS_PER_QUERY
) -> list[Link]:
    """The fewest links of each row that hold a share of its weight, up to a maximum number.

    >>> import torch
    >>> heaviest_links(torch.tensor([[0.625, 0.25, 0.125]]))
    [Link(query=0, key=0, weight=0.625), Link(query=0, key=1, weight=0.25)]
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
    """Draw the links of one view, queries above and keys below.

    For each query the heaviest links are drawn until they hold the share `mass` of its weight.
    """
    check_is_record("links_plot", record)
    panel = record.panel(view)
    longest = max(len(panel.queries), len(panel.keys))
    if longest > MAX_LINK_WORDS:
        raise LengthError(
            f"links: {longest} words on a side are too many for curves; at most "
            f"{MAX_LINK_WORDS}. Draw a heat map (record_map) or the whole document (long_overview)."
        )
    lengths = [len(name) for name in (*panel.queries, *panel.keys)]
    each = 0.18 + 0.1 * min(sum(lengths) / len(lengths), 12)
    figure, ax = on_axis(ax, 1.6 + each * longest, 3.4)
    # both rows are as wide as the longer one
    above, below = (_places(len(side), longest) for side in (panel.queries, panel.keys))
    for link in heaviest_links(panel.weights, mass=mass):
        _curve(ax, above[link.query], below[link.key], link.weight)
    labels = drawable([*panel.queries, *panel.keys])
    _words(ax, labels, above, slice(None, len(above)), 1.04, "bottom")
    _words(ax, labels, below, slice(len(above), None), -0.04, "top")
    note_missing(ax, labels)
    ax.set(xlim=(-0.7, longest - 0.3), ylim=(-0.28, 1.28), xticks=[], yticks=[])
    ax.set_title(panel.title, fontsize="medium")
    ax.set_ylabel(f"{panel.key_title} below, {panel.query_title} above", fontsize="x-small")
    ax.spines[:].set_visible(False)
    _legend(ax, mass)
    return figure


def _places(count: int, longest: int) -> list[float]:
    if count == 1:
        return [(longest - 1) / 2]
    return [place * (longest - 1) / (count - 1) for place in range(count)]


def _curve(ax: Axes, query: float, key: float, weight: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [(query, 1.0), (query, 0.66), (key, 0.34), (key, 0.0)]
    way = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    style = {"facecolor": "none", "edgecolor": COLOUR, "capstyle": "round", **_style(weight)}
    ax.add_patch(PathPatch(way, **style))


def _style(weight: float) -> dict[str, Any]:
    """The width and the darkness of a link."""
    return {"linewidth": 0.5 + 5 * min(weight, 1.0), "alpha": 0.15 + 0.85 * min(weight, 1.0)}


def _words(
    ax: Axes, labels: Labels, places: list[float], which: slice, y: float, side: str
) -> None:
    for text, x in zip(labels.texts[which], places, strict=True):
        shown = text if len(text) <= 14 else text[:13] + "…"
        ax.text(
            x, y, shown, ha="center", va=side, fontsize="small", parse_math=False,
            fontfamily=labels.families,
        )  # fmt: skip


def _legend(ax: Axes, mass: float) -> None:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": COLOUR, "solid_capstyle": "round"}
    lines = [
        Line2D([], [], label=f"{weight:g}", **style, **_style(weight)) for weight in LEGEND_WEIGHTS
    ]
    ax.legend(
        handles=lines, title=f"weight; links that hold {100 * mass:g} % of each query's",
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(lines), frameon=False,
        fontsize="x-small", title_fontsize="x-small",
    )  # fmt: skip
