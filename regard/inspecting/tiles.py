"""A map as tiles: any attention of any length, at any size, 256 × 256 numbers at a time.

    zoom 0                    one tile holds the whole matrix
    zoom z                    a pixel: 2^(max_zoom − z) keys, 2^max(0, row_zoom − z) queries
    max_zoom                  ceil(log2(max(queries, keys) / 256)): a pixel is a cell
    row_zoom                  ceil(log2(queries / 256)): less for a short answer about a long text
    max, mean                 of the cells of a pixel
    sum                       over a pixel's keys, averaged over its queries

A tile over more than 4,096 cells a side takes a few queries of each pixel and all its keys, unless
one asks for all of them; it says so. What a mask empties is known without computing anything.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.record import Weights

PIXELS = 256
"""On a side of a tile."""
EXACT = 4096
"""The most cells on a side of a tile that is computed wholly without being asked."""
BLOCK = 1 << 20
"""About how many weights are rebuilt at a time."""
WIDTH = 4096
"""Cells across one block."""

Head = int | str
"""A head's number, or "mean" or "max" over all heads."""
Values = Float[np.ndarray, "256 256"]
Pause = Callable[[], None]
"""Called after every block of weights; it may wait, and what it raises stops the work."""


@runtime_checkable
class ByHead(Protocol):
    """Weights that can be rebuilt one head at a time, and know what their mask empties."""

    def tile_of(self, head: int, rows: slice, columns: slice) -> Float[Tensor, "r c"]:
        """One rectangle of one head."""

    def may_hold(
        self, rows: slice, columns: slice, *, size: int | None = None
    ) -> Bool[Tensor, "nr nc"]:
        """Which blocks of a rectangle may hold a weight; False is a promise."""

    def allowed(self, rows: slice) -> Int[Tensor, " r"]:
        """How many keys each query may see."""


@final
@dataclass(frozen=True)
class Tile:
    """Numbers, not colours: 256 × 256 of them."""

    values: Values
    """float32; NaN where the matrix has ended."""
    rows_used: int
    """Queries of each pixel that were looked at."""
    is_exact: bool
    """Whether they were all of them."""
    lowest: float
    highest: float
    is_empty: bool
    """Whether a mask leaves nothing here; nothing was computed then."""


class _Band(NamedTuple):
    """Rows of pixels that are made alike."""

    pixels: slice
    cells: slice
    n_each: int
    """Queries of each pixel."""


@final
class Pyramid:
    """One layer's attention at every size.

    Args:
        weights: of shape `1 h q k`, such as `record.attention["encoder"].layers[0]`.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.n_heads, self.n_queries, self.n_keys = weights.shape[-3:]

    @property
    def max_zoom(self) -> int:
        """The zoom at which a pixel is a cell."""
        longest = max(self.n_queries, self.n_keys, 1)
        return max(0, math.ceil(math.log2(longest / PIXELS)))

    @property
    def row_zoom(self) -> int:
        """How often queries must be halved until one tile holds them all."""
        return max(0, math.ceil(math.log2(max(self.n_queries, 1) / PIXELS)))

    def height(self, zoom: int) -> int:
        """Queries of a pixel."""
        return int(2 ** max(0, self.row_zoom - zoom))

    def scale(self, zoom: int) -> int:
        """Keys of a pixel."""
        if not 0 <= zoom <= self.max_zoom:
            raise SettingError(f"tile: zoom lies in 0..{self.max_zoom}, got {zoom}.")
        return int(2 ** (self.max_zoom - zoom))

    def counts(self, zoom: int) -> tuple[int, int]:
        """How many tiles there are, down and across."""
        high, wide = (PIXELS * size for size in (self.height(zoom), self.scale(zoom)))
        return max(1, -(-self.n_queries // high)), max(1, -(-self.n_keys // wide))

    def tile(
        self,
        head: Head,
        zoom: int,
        x: int,
        y: int,
        pooling: str = "max",
        rows: int | None = 4,
        *,
        pause: Pause | None = None,
    ) -> Tile:
        """One tile.

        Args:
            head: its number, or "mean" or "max" over all heads.
            zoom: from 0 (the whole matrix) to `max_zoom`.
            x: which tile, across (keys).
            y: which tile, down (queries).
            pooling: what a pixel says of its cells: "max", "mean" or "sum".
            rows: queries of each pixel that are looked at where there are many; None for all.
            pause: called after every block.
        """
        pool = find(pooling, POOLINGS)
        high, scale, here = self.height(zoom), self.scale(zoom), self._area(zoom, x, y)
        if rows is not None and rows < 1:
            raise SettingError(f"tile: rows must be at least 1, or None for all; got {rows}.")
        wanted = high if rows is None or PIXELS * scale <= EXACT else min(rows, high)
        n_each = _cells(0, high, high, wanted)[1]
        shape = _pixels(here, high, scale)
        values = np.full((PIXELS, PIXELS), np.nan, dtype=np.float32)
        inside = values[: shape[0], : shape[1]]
        inside[:] = 0.0
        is_empty = not self._may_hold(*here)
        join = _JOINED.get(str(head), _alone)
        for number, one in enumerate([] if is_empty else self._heads(head)):
            found = self._pooled(one, here, (high, scale), n_each, pool, pause)
            inside[:] = join(inside, found, number)
        return Tile(
            values, n_each, n_each == high, float(inside.min()), float(inside.max()), is_empty
        )  # fmt: skip

    def visible(self, zoom: int, x: int, y: int) -> Bool[np.ndarray, "256 256"]:
        """Where a pixel may hold a weight; False is masked, or outside the matrix."""
        high, scale, here = self.height(zoom), self.scale(zoom), self._area(zoom, x, y)
        out = np.zeros((PIXELS, PIXELS), dtype=bool)
        n_rows, n_columns = _pixels(here, high, scale)
        seen = visible_by(self.weights, *here, size=high)
        seen = torch.nn.functional.pad(seen, (0, n_columns * (scale // high) - seen.shape[1]))
        out[:n_rows, :n_columns] = seen.unflatten(1, (n_columns, -1)).any(-1).numpy()
        return out

    def allowed(self, zoom: int, y: int, rows: int | None = 4) -> Float[np.ndarray, "256"]:
        """How many keys the queries of each row of pixels may see: the mean of some of them.

        A weight times this number is its lift: 1 is what a query that looks everywhere alike gives.

        Args:
            zoom: from 0 to `max_zoom`.
            y: which row of tiles.
            rows: queries of each pixel that are counted; None for all.
        """
        high, (down, _) = self.height(zoom), self._area(zoom, 0, y)
        out = np.full(PIXELS, np.nan, dtype=np.float32)
        for band in _bands(down, high, high if rows is None else min(high, rows)):
            counts = allowed_by(self.weights, band.cells).float().reshape(-1, band.n_each).mean(1)
            out[band.pixels] = counts.numpy()
        return out

    def _area(self, zoom: int, x: int, y: int) -> tuple[slice, slice]:
        """The cells of a tile."""
        down, across = self.counts(zoom)
        if not (0 <= x < across and 0 <= y < down):
            raise SettingError(
                f"tile: zoom {zoom} has {across} × {down} tiles, counted from 0; got x {x}, y {y}."
            )
        high, wide = (PIXELS * size for size in (self.height(zoom), self.scale(zoom)))
        return (
            slice(y * high, min((y + 1) * high, self.n_queries)),
            slice(x * wide, min((x + 1) * wide, self.n_keys)),
        )

    def _heads(self, head: Head) -> list[int]:
        if isinstance(head, str):
            find(head, _JOINED)
            return list(range(self.n_heads))
        if not 0 <= head < self.n_heads:
            raise SettingError(
                f"tile: there is no head {head}; this layer has {self.n_heads}, counted from 0."
            )
        return [head]

    def _pooled(
        self,
        head: int,
        here: tuple[slice, slice],
        sizes: tuple[int, int],
        n_each: int,
        pool: "_Pooling",
        pause: Pause | None,
    ) -> Float[np.ndarray, "r c"]:
        (rows, columns), (height, scale) = here, sizes
        wide = max(scale, WIDTH // scale * scale)
        lines = []
        for band in _bands(rows, height, n_each):
            n_pixels = band.pixels.stop - band.pixels.start
            high = max(1, BLOCK // (wide * band.n_each))
            for first in range(0, n_pixels, high):
                last = min(first + high, n_pixels)
                step = band.cells.step or 1
                cells = slice(
                    band.cells.start + first * band.n_each * step,
                    min(band.cells.start + last * band.n_each * step, band.cells.stop),
                    step,
                )
                parts = []
                for left in range(columns.start, columns.stop, wide):
                    some = slice(left, min(left + wide, columns.stop))
                    parts.append(self._block(head, cells, some, scale, band.n_each, pool))
                    if pause is not None:
                        pause()
                lines.append(torch.cat(parts, 1))
        return torch.cat(lines).numpy()

    def _block(
        self, head: int, rows: slice, columns: slice, scale: int, n_each: int, pool: "_Pooling"
    ) -> Float[Tensor, "r c"]:
        n_rows = len(range(rows.start, rows.stop, rows.step)) // n_each
        n_cells = columns.stop - columns.start
        n_columns = -(-n_cells // scale)
        if not self._may_hold(rows, columns):
            return torch.zeros(n_rows, n_columns)
        cells = tile_of(self.weights, head, rows, columns)
        if scale == n_each == 1:
            return cells
        short = n_columns * scale - n_cells
        cells = torch.nn.functional.pad(cells, (0, short)) if short else cells
        sizes = torch.full((n_columns,), float(scale))
        sizes[-1] -= short
        return pool(cells.view(n_rows, n_each, n_columns, scale), sizes)

    def _may_hold(self, rows: slice, columns: slice) -> bool:
        return bool(visible_by(self.weights, rows, columns).any())


def _pixels(here: tuple[slice, slice], high: int, wide: int) -> tuple[int, int]:
    """How many pixels an area has, down and across."""
    rows, columns = here
    return -(-(rows.stop - rows.start) // high), -(-(columns.stop - columns.start) // wide)


_Pooling = Callable[[Tensor, Tensor], Tensor]

POOLINGS: Mapping[str, _Pooling] = {
    "max": lambda cells, sizes: cells.amax(1).amax(-1),
    "mean": lambda cells, sizes: cells.mean(1).sum(-1) / sizes,
    "sum": lambda cells, sizes: cells.mean(1).sum(-1),
}
"""Cells of shape `rows, queries of a pixel, columns, keys of a pixel`, and how many keys exist."""


def _alone(before: np.ndarray, new: np.ndarray, number: int) -> np.ndarray:
    return new


_JOINED: Mapping[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "mean": lambda before, new, number: before + (new - before) / (number + 1),
    "max": lambda before, new, number: np.maximum(before, new),
}


def _bands(rows: slice, scale: int, n_each: int) -> Iterator[_Band]:
    """The pixels that are whole, then the last one where it is not."""
    n_whole = (rows.stop - rows.start) // scale
    edge = rows.start + n_whole * scale
    if n_whole:
        yield _Band(slice(0, n_whole), *_cells(rows.start, edge, scale, n_each))
    if edge < rows.stop:
        left = rows.stop - edge
        yield _Band(slice(n_whole, n_whole + 1), *_cells(edge, rows.stop, left, min(left, n_each)))


def _cells(start: int, stop: int, scale: int, n_each: int) -> tuple[slice, int]:
    """`n_each` queries of every `scale`, evenly apart; as many more as make the step whole."""
    step = max(step for step in range(1, scale // n_each + 1) if scale % step == 0)
    return slice(start + (step - 1) // 2, stop, step), scale // step


def tile_of(weights: Weights, head: int, rows: slice, columns: slice) -> Float[Tensor, "r c"]:
    """One rectangle of one head, as single-precision numbers in ordinary memory."""
    if isinstance(weights, ByHead):
        return weights.tile_of(head, rows, columns).float().cpu()
    return weights.tile(rows, columns)[0, head].float().cpu()


def visible_by(
    weights: Weights, rows: slice, columns: slice, *, size: int | None = None
) -> Bool[Tensor, "nr nc"]:
    """Which blocks of a rectangle may hold a weight, as `may_hold`; all where no mask is known."""
    if isinstance(weights, ByHead):
        return weights.may_hold(rows, columns, size=size)
    n_cells = (
        len(range(count)[part])
        for count, part in zip(weights.shape[-2:], (rows, columns), strict=True)
    )
    return torch.ones([-(-n // (size or max(n, 1))) for n in n_cells], dtype=torch.bool)


def allowed_by(weights: Weights, rows: slice) -> Int[Tensor, " r"]:
    """How many keys each of these queries may see; all where no mask is known."""
    if isinstance(weights, ByHead):
        return weights.allowed(rows).cpu()
    n_queries, n_keys = weights.shape[-2:]
    return torch.full((len(range(n_queries)[rows]),), n_keys)
