"""Alignment errors of every head, layers down and heads across: as text, and as a page's table."""

from collections.abc import Mapping

from regard.evaluating.alignment import AlignmentCounts
from regard.evaluating.attention_links import DecoderRow, HeadView
from regard.plots.page import table

Errors = Mapping[HeadView, AlignmentCounts]


def head_grid(errors: Errors) -> str:
    """Error rates in per cent: layers down, heads across, means at the edges, `*` at the best head.

    >>> from regard.evaluating.alignment import Gold
    >>> right, gold = frozenset({(0, 0)}), Gold(frozenset({(0, 0)}))
    >>> counts = AlignmentCounts.of(right, gold)
    >>> views = HeadView(0, 0), HeadView(0, None), HeadView(None, None)
    >>> print(head_grid(dict.fromkeys(views, counts)))
    predicting row  head 1     mean
    layer 1            0.0*     0.0
    mean of all heads: 0.0
    """
    best = min((v for v in errors if v.is_head), key=lambda v: errors[v].error_rate, default=None)
    grids = []
    for row in DecoderRow:
        if any(view.row is row for view in errors):
            lines = _lines(errors, row, best, "*", " ")
            names = [f"head {number} " for number in range(1, len(lines[0]) - 1)]
            cells = [[f"{row.name.lower()} row", *names, "mean "], *lines]
            grid = [f"{name:<14}" + "".join(f"{one:>9}" for one in rates) for name, *rates in cells]
            grid.append(f"mean of all heads: {_rate(errors, HeadView(None, None, row))}")
            grids.append("\n".join(line.rstrip() for line in grid))
    return "\n\n".join(grids)


def error_table(errors: Errors, chosen: HeadView, *, caption: str) -> str:
    """Error rates in per cent: rows and layers down, heads across, the chosen marked."""
    lines = [
        [f"{row.name.lower()} row, {name}", *rates]
        for row in DecoderRow
        for name, *rates in _lines(errors, row, chosen, " (chosen)", "")
    ]
    names = [f"head {number}" for number in range(1, len(lines[0]) - 1)]
    return table(["", *names, "mean of heads"], lines, caption=caption)


def _lines(
    errors: Errors, row: DecoderRow, chosen: HeadView | None, mark: str, other: str
) -> list[list[str]]:
    """For each layer its number, the rates of its heads, and that of their mean."""
    views = [view for view in errors if view.row is row]
    layers = sorted({view.layer for view in views if view.layer is not None})
    heads = sorted({view.head for view in views if view.head is not None})
    across = {
        layer: [*(HeadView(layer, head, row) for head in heads), HeadView(layer, None, row)]
        for layer in layers
    }
    return [
        [f"layer {layer + 1}"]
        + [f"{_rate(errors, one)}{mark if one == chosen else other}" for one in across[layer]]
        for layer in layers
    ]


def _rate(errors: Errors, view: HeadView) -> str:
    return f"{100 * errors[view].error_rate:.1f}"
