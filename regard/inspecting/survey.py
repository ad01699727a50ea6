"""One pass over a whole map of any length: what each key receives, and the strongest far links.

    received[j] = Σᵢ a[i,j]                        the mass of a column
    far links     the largest a[i,j] with |i − j| > far

Nothing of the size of the map is kept. With `every` > 1 the pass takes every so many queries, and
what it finds is an estimate that says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import SettingError
from regard.inspecting.panels import Link
from regard.inspecting.record import Weights
from regard.inspecting.tiles import BLOCK, WIDTH, ByHead, Pause, tile_of

ANYWHERE = -1
"""As `far`: every link counts."""

Progress = Callable[[int, int], None]
"""Told how many queries are done, and how many there are; what it raises stops the pass."""


@final
@dataclass(frozen=True)
class Survey:
    """What one pass over one head found."""

    received: Float[np.ndarray, " k"]
    """The mass of each key, over all queries; estimated from those that were used."""
    entropy: Float[np.ndarray, " r"]
    """How spread each query that was used is, in nats."""
    links: tuple[Link, ...]
    """The strongest far links, strongest first."""
    rows: range
    """The queries that were used."""
    far: int
    """How far apart the two ends of a far link are, at least one more."""
    is_exact: bool
    """Whether every query was used."""


def survey(
    weights: Weights,
    head: int,
    *,
    far: int = 64,
    count: int = 50,
    every: int = 1,
    left_out: frozenset[int] = frozenset(),
    progress: Progress | None = None,
    pause: Pause | None = None,
) -> Survey:
    """Pass over one head.

    Args:
        weights: one layer's, of shape `1 h q k`.
        head: its number, from 0.
        far: links between places no further apart than this are near; `ANYWHERE` where places of
            two sequences cannot be compared.
        count: how many far links to find.
        every: use every so many queries.
        left_out: keys to which no far link is looked for, such as a begin token that everybody
            looks at.
        progress: told after every few rows how far the pass is.
        pause: called after every block, many to a row of a long text.
    """
    if every < 1 or count < 0 or far < ANYWHERE:
        raise SettingError(
            f"survey: expected every of at least 1, count of at least 0 and far of at least "
            f"{ANYWHERE}; got {every}, {count} and {far}."
        )
    n_queries, n_keys = weights.shape[-2:]
    rows = range(min((every - 1) // 2, max(n_queries - 1, 0)), n_queries, every)
    received, entropy = torch.zeros(n_keys, dtype=torch.float64), torch.zeros(len(rows))
    hidden = torch.tensor(sorted(left_out), dtype=torch.int64)
    strongest = _Strongest(count)
    done = 0
    for some, columns, tile in _blocks(weights, head, rows):
        at = slice(rows.index(some[0]), rows.index(some[-1]) + 1)
        received[columns] += tile.sum(0)
        entropy[at] += torch.special.entr(tile).sum(1)
        if count and max(some[-1] - columns.start, columns.stop - some[0]) > far:
            strongest.see(_far_only(tile, some, columns, far, hidden), some, columns.start)
        if progress is not None and at.stop > done:
            done = at.stop
            progress(done, len(rows))
        if pause is not None:
            pause()
    scale = n_queries / max(len(rows), 1)
    return Survey(
        (received * scale).float().numpy(),
        entropy.numpy(),
        strongest.found(),
        rows,
        far,
        every == 1,
    )


@final
class _Strongest:
    """The largest weights seen so far, and where they stood."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.weights = torch.zeros(0)
        self.places = torch.zeros(0, 2, dtype=torch.int64)

    def see(self, tile: Float[Tensor, "r c"], rows: range, left: int) -> None:
        floor = float(self.weights[-1]) if len(self.weights) == self.count else 0.0
        if not tile.numel() or float(tile.max()) <= floor:
            return
        flat = tile.flatten()
        best = flat.topk(min(self.count, len(flat)))
        row, column = best.indices // tile.shape[1], best.indices % tile.shape[1]
        places = torch.stack([rows.start + row * rows.step, left + column], 1)
        weights = torch.cat([self.weights, best.values])
        keep = weights.topk(min(self.count, len(weights)))
        self.weights = keep.values
        self.places = torch.cat([self.places, places])[keep.indices]

    def found(self) -> tuple[Link, ...]:
        pairs = zip(self.places.tolist(), self.weights.tolist(), strict=True)
        return tuple(Link(query, key, weight) for (query, key), weight in pairs if weight > 0)


def _blocks(
    weights: Weights, head: int, rows: range
) -> Iterator[tuple[range, slice, Float[Tensor, "r c"]]]:
    n_keys = weights.shape[-1]
    wide = min(WIDTH, max(n_keys, 1))
    high = max(1, BLOCK // wide)
    for first in range(0, len(rows), high):
        some = rows[first : first + high]
        part = slice(some.start, some.stop, some.step)
        for left in range(0, n_keys, wide):
            columns = slice(left, min(left + wide, n_keys))
            if not isinstance(weights, ByHead) or weights.may_hold(part, columns).any():
                yield some, columns, tile_of(weights, head, part, columns)


def _far_only(
    tile: Float[Tensor, "r c"], rows: range, columns: slice, far: int, hidden: Tensor
) -> Float[Tensor, "r c"]:
    """The same with nothing near the diagonal, and nothing at keys that are left out."""
    row, column = torch.tensor(rows), torch.arange(columns.start, columns.stop)
    is_near = rows[0] - far < columns.stop and columns.start <= rows[-1] + far
    here = hidden[(hidden >= columns.start) & (hidden < columns.stop)] - columns.start
    if is_near:
        tile = tile.masked_fill((row[:, None] - column).abs() <= far, 0.0)
    return tile.index_fill(1, here, 0.0) if len(here) else tile
