"""A map of few queries and many keys: every query is looked at, and a pixel is wider than high.

    an answer of 21 tokens about a document of 60,000: 21 rows of pixels, each of 64 keys

`Pyramid` has square pixels, for maps that are about as high as they are wide; of such an answer it
would leave a line one pixel high.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.inspecting.record import Weights
from regard.inspecting.tiles import BLOCK, allowed_by, tile_of, visible_by


@final
@dataclass(frozen=True)
class Strip:
    """Numbers, not colours: those of every pixel, and of every row of pixels."""

    values: Float[np.ndarray, "r c"]
    """The heaviest weight beneath each pixel."""
    visible: Bool[np.ndarray, "r c"]
    """Where a mask lets any weight be."""
    allowed: Float[np.ndarray, " r"]
    """How many keys the queries of a row of pixels may see, in the mean."""


def strip(weights: Weights, head: int, *, down: int, across: int) -> Strip:
    """The whole matrix of one head, nothing left out.

    Args:
        weights: of shape `1 h q k`.
        head: its number, from 0.
        down: queries of a pixel.
        across: keys of a pixel.
    """
    n_queries, n_keys = weights.shape[-2:]
    rows = slice(0, n_queries)
    wide = max(1, BLOCK // max(1, n_queries) // across) * across
    parts = []
    for left in range(0, n_keys, wide):
        columns = slice(left, min(left + wide, n_keys))
        cells = tile_of(weights, head, rows, columns)
        seen = visible_by(weights, rows, columns, size=1)
        parts.append([_heaviest(each, down, across) for each in (cells, seen.float())])
    values, visible = (torch.cat(each, 1).numpy() for each in zip(*parts, strict=True))
    counts = allowed_by(weights, rows).float().split(down)
    return Strip(values, visible > 0, np.array([float(some.mean()) for some in counts], np.float32))


def _heaviest(cells: Float[Tensor, "q k"], down: int, across: int) -> Float[Tensor, "r c"]:
    """The heaviest cell of every pixel; no weight is below zero."""
    high, wide = (-size % by for size, by in zip(cells.shape, (down, across), strict=True))
    whole = pad(cells, (0, wide, 0, high))
    return whole.unflatten(1, (-1, across)).amax(-1).unflatten(0, (-1, down)).amax(1)
