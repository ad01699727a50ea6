"""A map as tiles: any attention of any length, at any size, 256 × 256 numbers at a time.

    zoom 0                    one tile holds the whole matrix
    zoom z                    a pixel: 2^(max_zoom − z) keys, 2^max(0, row_zoom − z) queries
    max_zoom                  ceil(log2(max(queries, keys) / 256)): a pixel is a cell
    row_zoom                  ceil(log2(queries / 256)): less for a short answer about a long text
    max, mean                 of the cells of a pixel
    sum                       over a pixel's keys, averaged over its queries

A tile over more than 4,096 cells a side takes a few queries of each pixel and all its keys, unless
all queries are requested; `is_exact` is then False. Fully masked tiles are known from the mask.
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
from regard.inspecting.record import Weights, as_slice, row_blocks

PIXELS = 256
"""On a side of a tile."""
MAX_EXACT_CELLS = 4096
"""The most cells on a side of a tile for which all queries are used by default."""
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
    """Weights that are rebuilt one head at a time and know which blocks are fully masked."""

    def tile_of(self, head: int, rows: slice, columns: slice) -> Float[Tensor, "r c"]:
        """One rectangle of one head."""

    def may_hold(
        self, rows: slice, columns: slice, *, size: int | None = None
    ) -> Bool[Tensor, "nr nc"]:
        """Which blocks of a rectangle may hold a weight; where False, all weights are zero."""

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
    """Whether these are all queries of the pixel."""
    lowest: float
    highest: float
    is_empty: bool
    """Whether the tile is fully masked; then no weights were computed."""


class _Area(NamedTuple):
    """The cells of a tile, and how many of them make a pixel."""

    rows: range
    columns: range
    height: int
    """Queries of a pixel."""
    scale: int
    """Keys of a pixel."""

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels, down and across."""
        return -(-len(self.rows) // self.height), -(-len(self.columns) // self.scale)


@final
class Pyramid:
    """One layer's attention at every size, such as `record.attention["encoder"].layers[0]`."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.n_heads, self.n_queries, self.n_keys = weights.shape[-3:]

    @property
    def max_zoom(self) -> int:
        """The zoom at which a pixel is a cell."""
        return _halvings(max(self.n_queries, self.n_keys))

    @property
    def row_zoom(self) -> int:
        """How often the queries must be halved to fit into one tile."""
        return _halvings(self.n_queries)

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
        """The tile at place x (keys, across) and y (queries, down), of one head or all of them.

        A pixel is the "max", "mean" or "sum" of its cells. Where it has many queries, `rows` of
        them are looked at; with None, all. `pause` is called after every block.
        """
        pool, area = find(pooling, POOLINGS), self._area(zoom, x, y)
        if rows is not None and rows < 1:
            raise SettingError(f"tile: rows must be at least 1, or None for all; got {rows}.")
        is_whole = rows is None or PIXELS * area.scale <= MAX_EXACT_CELLS
        wanted = area.height if is_whole or rows is None else min(rows, area.height)
        n_each = area.height // _step(area.height, wanted)
        values = np.full((PIXELS, PIXELS), np.nan, dtype=np.float32)
        inside = values[: area.shape[0], : area.shape[1]]
        inside[:] = 0.0
        is_empty = not self._may_hold(area.rows, area.columns)
        join = _JOINED.get(str(head))
        for number, one in enumerate([] if is_empty else self._heads(head)):
            found = self._pooled(one, area, n_each, pool, pause)
            inside[:] = found if join is None else join(inside, found, number)
        return Tile(
            values, n_each, n_each == area.height, float(inside.min()), float(inside.max()),
            is_empty,
        )  # fmt: skip

    def visible(self, zoom: int, x: int, y: int) -> Bool[np.ndarray, "256 256"]:
        """Where a pixel may hold a weight; False is masked, or outside the matrix."""
        area = self._area(zoom, x, y)
        out = np.zeros((PIXELS, PIXELS), dtype=bool)
        n_rows, n_columns = area.shape
        seen = visible_by(
            self.weights, as_slice(area.rows), as_slice(area.columns), size=area.height
        )
        blocks = n_columns * (area.scale // area.height)
        seen = torch.nn.functional.pad(seen, (0, blocks - seen.shape[1]))
        out[:n_rows, :n_columns] = seen.unflatten(1, (n_columns, -1)).any(-1).numpy()
        return out

    def allowed(self, zoom: int, y: int, rows: int | None = 4) -> Float[np.ndarray, "256"]:
        """How many keys the queries of each row of pixels may see: the mean of some of them.

        A weight times this number is its lift: 1 is what a query that looks everywhere alike gives.
        `rows` queries of each pixel are counted; with None, all.
        """
        area = self._area(zoom, 0, y)
        n_each = area.height if rows is None else min(area.height, rows)
        means = [
            allowed_by(self.weights, as_slice(cells)).float().reshape(-1, n_of_pixel).mean(1)
            for cells, n_of_pixel in _bands(area.rows, area.height, n_each)
        ]
        out = np.full(PIXELS, np.nan, dtype=np.float32)
        out[: area.shape[0]] = torch.cat([torch.zeros(0), *means]).numpy()
        return out

    def _area(self, zoom: int, x: int, y: int) -> _Area:
        down, across = self.counts(zoom)
        if not (0 <= x < across and 0 <= y < down):
            raise SettingError(
                f"tile: zoom {zoom} has {across} × {down} tiles, counted from 0; got x {x}, y {y}."
            )
        height, scale = self.height(zoom), self.scale(zoom)
        rows = range(self.n_queries)[y * PIXELS * height : (y + 1) * PIXELS * height]
        columns = range(self.n_keys)[x * PIXELS * scale : (x + 1) * PIXELS * scale]
        return _Area(rows, columns, height, scale)

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
        self, head: int, area: _Area, n_each: int, pool: "_Pooling", pause: Pause | None
    ) -> Float[np.ndarray, "r c"]:
        wide = max(area.scale, WIDTH // area.scale * area.scale)
        lines = []
        for cells, n_of_pixel in _bands(area.rows, area.height, n_each):
            high = max(1, BLOCK // (wide * n_of_pixel)) * n_of_pixel
            for rows in row_blocks(cells, high):
                parts = []
                for columns in row_blocks(area.columns, wide):
                    parts.append(self._block(head, rows, columns, area.scale, n_of_pixel, pool))
                    if pause is not None:
                        pause()
                lines.append(torch.cat(parts, 1))
        return torch.cat(lines).numpy()

    def _block(
        self, head: int, rows: range, columns: range, scale: int, n_each: int, pool: "_Pooling"
    ) -> Float[Tensor, "r c"]:
        n_rows, n_columns = len(rows) // n_each, -(-len(columns) // scale)
        if not self._may_hold(rows, columns):
            return torch.zeros(n_rows, n_columns)
        cells = tile_of(self.weights, head, as_slice(rows), as_slice(columns))
        if scale == n_each == 1:
            return cells
        short = n_columns * scale - len(columns)
        cells = torch.nn.functional.pad(cells, (0, short)) if short else cells
        sizes = torch.full((n_columns,), float(scale))
        sizes[-1] -= short
        return pool(cells.view(n_rows, n_each, n_columns, scale), sizes)

    def _may_hold(self, rows: range, columns: range) -> bool:
        return bool(visible_by(self.weights, as_slice(rows), as_slice(columns)).any())


def _halvings(count: int) -> int:
    return max(0, math.ceil(math.log2(max(count, 1) / PIXELS)))


_Pooling = Callable[[Tensor, Tensor], Tensor]

POOLINGS: Mapping[str, _Pooling] = {
    "max": lambda cells, sizes: cells.amax(1).amax(-1),
    "mean": lambda cells, sizes: cells.mean(1).sum(-1) / sizes,
    "sum": lambda cells, sizes: cells.mean(1).sum(-1),
}
"""Cells of shape `rows, queries of a pixel, columns, keys of a pixel`, and how many keys exist."""


_JOINED: Mapping[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "mean": lambda before, new, number: before + (new - before) / (number + 1),
    "max": lambda before, new, number: np.maximum(before, new),
}


def _bands(rows: range, height: int, n_each: int) -> Iterator[tuple[range, int]]:
    """The used queries and their number per pixel: of full pixels, then of a partial one."""
    n_left = len(rows) % height
    edge = len(rows) - n_left
    for part, size in ((rows[:edge], height), (rows[edge:], n_left)):
        if part:
            step = _step(size, min(size, n_each))
            yield part[(step - 1) // 2 :: step], size // step


def _step(size: int, n_each: int) -> int:
    """The step that takes at least `n_each` of every `size` queries and divides `size`."""
    return max(step for step in range(1, size // n_each + 1) if size % step == 0)


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
