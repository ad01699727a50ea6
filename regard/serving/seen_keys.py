"""Which keys a query may see: by the mask of a layer, or by any way through all layers."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.inspecting.record import Record
from regard.inspecting.tiles import ByHead

ALL = slice(None)
Span = list[int]
"""Keys from the first to behind the last."""


def seen_keys(record: Record, kind: str) -> list[Bool[Tensor, "q k"] | None]:
    """Which pairs the mask of each layer leaves, in any head."""
    layers = record.attention[kind].layers
    return [
        layer.may_hold(ALL, ALL, size=1) if isinstance(layer, ByHead) else None for layer in layers
    ]


def reached_keys(record: Record, kind: str) -> list[Bool[Tensor, "q k"] | None]:
    """Which inputs any way through all layers leads to."""
    whole: Tensor | None = None
    for seen in seen_keys(record, kind):
        if seen is None:
            return [None]
        step = (seen | torch.eye(len(seen), dtype=torch.bool)).float()
        whole = step if whole is None else step @ whole
    return [None if whole is None else whole > 0]


def unknown_keys(record: Record, kind: str) -> list[Bool[Tensor, "q k"] | None]:
    """Nobody has said which."""
    return [None]


def spans(row: Sequence[bool]) -> list[Span]:
    """The runs of True in a row.

    >>> spans([True, True, False, True])
    [[0, 2], [3, 4]]
    """
    edges = [i for i, (a, b) in enumerate(zip([False, *row], [*row, False], strict=True)) if a != b]
    return [[first, behind] for first, behind in zip(edges[::2], edges[1::2], strict=True)]
