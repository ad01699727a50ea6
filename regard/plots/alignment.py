"""Alignment errors of every head as a grid of text, the best marked."""

from collections.abc import Mapping, Sequence

from regard.evaluating.alignment import AlignmentCounts
from regard.evaluating.heads import Row, View


def head_grid(table: Mapping[View, AlignmentCounts]) -> str:
    """Error rates in per cent: layers down, heads across, means at the edges, `*` at the best head.

    >>> from regard.evaluating.links import Gold
    >>> right, gold = frozenset({(0, 0)}), Gold(frozenset({(0, 0)}))
    >>> counts = AlignmentCounts.of(right, gold)
    >>> print(head_grid({View(0, 0): counts, View(0, None): counts, View(None, None): counts}))
    predicting row  head 1     mean
    layer 1            0.0*     0.0
    mean of all heads: 0.0
    """
    best = min((v for v in table if v.is_head), key=lambda v: table[v].error_rate, default=None)
    rows = [row for row in Row if any(view.row is row for view in table)]
    return "\n\n".join(_one_grid(table, row, best) for row in rows)


def _one_grid(table: Mapping[View, AlignmentCounts], row: Row, best: View | None) -> str:
    views = [view for view in table if view.row is row]
    layers = sorted({view.layer for view in views if view.layer is not None})
    heads = sorted({view.head for view in views if view.head is not None})
    head = [f"{row.name.lower()} row", *(f"head {head + 1}" for head in heads), "mean"]
    lines = [_line([*head[:1], *(f"{name} " for name in head[1:])])]
    for layer in layers:
        across = [*(View(layer, head, row) for head in heads), View(layer, None, row)]
        cells = [f"{_rate(table, view)}{'*' if view == best else ' '}" for view in across]
        lines.append(_line([f"layer {layer + 1}", *cells]))
    return "\n".join([*lines, f"mean of all heads: {_rate(table, View(None, None, row))}"])


def _line(cells: Sequence[str]) -> str:
    return (f"{cells[0]:<14}" + "".join(f"{cell:>9}" for cell in cells[1:])).rstrip()


def _rate(table: Mapping[View, AlignmentCounts], view: View) -> str:
    return f"{100 * table[view].error_rate:.1f}"
