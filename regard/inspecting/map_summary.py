"""Map summary: one pass over a map of any length that sums each key's weight and finds far links.

    received[j] = Σᵢ a[i,j]                        the mass of a column
    far links     the largest a[i,j] with |i − j| > far

Nothing of the size of the map is kept. With `every` > 1 the pass takes one in `every` queries, and
its result is an estimate: `is_exact` is False.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import SettingError
from regard.inspecting.panels import Link
from regard.inspecting.record import Weights, as_slice, row_blocks
from regard.inspecting.tiles import BLOCK, WIDTH, ByHead, Pause, tile_of

ANYWHERE = -1
"""A value of `far` with which every link counts."""


@final
@dataclass(frozen=True)
class MapSummary:
    """The results of one pass over one head."""

    received: Float[np.ndarray, " k"]
    """The mass of each key, over all queries; estimated from those that were used."""
    entropy: Float[np.ndarray, " r"]
    """How spread each query that was used is, in nats."""
    links: tuple[Link, ...]
    """The strongest far links, strongest first."""
    rows: range
    """The queries that were used."""
    far: int
    """The ends of a far link are more than this many places apart."""
    is_exact: bool
    """Whether every query was used."""


def summarise_map(
    weights: Weights,
    head: int,
    *,
    far: int = 64,
    count: int = 50,
    every: int = 1,
    left_out: frozenset[int] = frozenset(),
    pause: Pause | None = None,
) -> MapSummary:
    """Pass over one head of a layer's weights, and find so many far links.

    Links between places no further than `far` apart are near; `ANYWHERE` is for two sequences,
    whose places cannot be compared. One in `every` queries is used. Keys that are left
    out, such as a begin token, have no far links. `pause` is called after every block.
    """
    if every < 1 or count < 0 or far < ANYWHERE:
        raise SettingError(
            f"map summary: expected every of at least 1, count of at least 0 and far of at least "
            f"{ANYWHERE}; got {every}, {count} and {far}."
        )
    n_queries, n_keys = weights.shape[-2:]
    rows = range(min((every - 1) // 2, max(n_queries - 1, 0)), n_queries, every)
    received, entropy = torch.zeros(n_keys, dtype=torch.float64), torch.zeros(len(rows))
    hidden = torch.tensor(sorted(left_out), dtype=torch.int64)
    best = torch.zeros(0), torch.zeros(0, 2, dtype=torch.int64)
    for some, columns, tile in _blocks(weights, head, rows):
        at = slice(rows.index(some[0]), rows.index(some[-1]) + 1)
        received[columns] += tile.sum(0)
        entropy[at] += torch.special.entr(tile).sum(1)
        if count and max(some[-1] - columns.start, columns.stop - some[0]) > far:
            tile = _far_only(tile, some, columns, far, hidden)
            best = _strongest(best, tile, some, columns.start, count)
        if pause is not None:
            pause()
    whole = (received * (n_queries / max(len(rows), 1))).float().numpy()
    pairs = zip(*(numbers.tolist() for numbers in best), strict=True)
    links = tuple(Link(query, key, weight) for weight, (query, key) in pairs if weight > 0)
    return MapSummary(whole, entropy.numpy(), links, rows, far, every == 1)


def _strongest(
    best: tuple[Tensor, Tensor], tile: Float[Tensor, "r c"], rows: range, left: int, count: int
) -> tuple[Tensor, Tensor]:
    """The largest weights and their places, after one more tile."""
    weights, places = best
    floor = float(weights[-1]) if len(weights) == count else 0.0
    if not tile.numel() or float(tile.max()) <= floor:
        return best
    found = tile.flatten().topk(min(count, tile.numel()))
    row, column = found.indices // tile.shape[1], found.indices % tile.shape[1]
    here = torch.stack([rows.start + row * rows.step, left + column], 1)
    weights, places = torch.cat([weights, found.values]), torch.cat([places, here])
    keep = weights.topk(min(count, len(weights)))
    return keep.values, places[keep.indices]


def _blocks(
    weights: Weights, head: int, rows: range
) -> Iterator[tuple[range, slice, Float[Tensor, "r c"]]]:
    n_keys = weights.shape[-1]
    wide = min(WIDTH, max(n_keys, 1))
    for some in row_blocks(rows, BLOCK // wide):
        part = as_slice(some)
        for left in range(0, n_keys, wide):
            columns = slice(left, min(left + wide, n_keys))
            if not isinstance(weights, ByHead) or weights.may_hold(part, columns).any():
                yield some, columns, tile_of(weights, head, part, columns)


def _far_only(
    tile: Float[Tensor, "r c"], rows: range, columns: slice, far: int, hidden: Tensor
) -> Float[Tensor, "r c"]:
    """The tile with zeros near the diagonal and at the keys that are left out."""
    row, column = torch.tensor(rows), torch.arange(columns.start, columns.stop)
    is_near = rows[0] - far < columns.stop and columns.start <= rows[-1] + far
    here = hidden[(hidden >= columns.start) & (hidden < columns.stop)] - columns.start
    if is_near:
        tile = tile.masked_fill((row[:, None] - column).abs() <= far, 0.0)
    return tile.index_fill(1, here, 0.0) if len(here) else tile
