"""Tiles: the visible pairs of any pattern as square tiles of the map, for the sparse kernel.

    tile t = block of rows row[t] against block of columns column[t];
    bits[t, i] has bit j set where row i of the tile may see column j

A tile without a visible pair is not listed, so that lists and bits grow with the visible pairs
instead of the whole map. They are made once for a pattern and a length; the padding of a batch is
kept separately.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.links import Grid, Pattern, keys_that_exist
from regard.attention.masks import all_of, split_padding
from regard.places import Places

SIDE = 64
"""Rows and columns of a tile: the bits of one row fill an int64."""

TILES_AT_ONCE = 4096
"""Tiles whose pairs are made at a time, one byte each, before they are packed into bits."""

LONG = 2
"""A block with so many times the tiles of most is computed before all others."""

LENGTHS_KEPT = 8
"""For how many lengths, or other masks, the tiles of a pattern are cached."""


class Lists(NamedTuple):
    """The tiles of each block of rows, or of each block of columns; fullest blocks first."""

    order: Int[Tensor, " n"]
    """Blocks, the one with most tiles first, so that the kernel does not wait for it at the end."""
    start: Int[Tensor, " n_and_1"]
    """Where the tiles of a block begin in the two lists below, and where the last one ends."""
    other: Int[Tensor, " t"]
    """The block on the other side of each tile."""
    tile: Int[Tensor, " t"]
    """The number of each tile."""


class Tiling(NamedTuple):
    """A map cut into tiles: the pairs that its mask shows, and the keys that exist."""

    by_row: Lists
    by_column: Lists
    bits: Int[Tensor, "b t side"]
    """One int64 for each row of a tile; `b` is 1 where all sentences see the same."""
    full: Int[Tensor, " t"]
    """1 for a tile that hides no pair, else 0."""
    long_rows: int
    """How many blocks of rows have far more tiles than most."""
    long_columns: int
    """The same of columns."""
    valid: Bool[Tensor, "b k"] | None = None

    @classmethod
    def of(cls, mask: Pattern, places: Places, n_queries: int, n_keys: int) -> "Tiling":
        """Cut a gapless map."""
        parts, valid = split_padding(mask)
        sizes = (n_queries, n_keys, places.past or 0, places.length, str(places.device))
        tiling = _known(parts, sizes, lambda: _cut(all_of(*parts), places, n_queries, n_keys))
        return tiling._replace(valid=None if valid is None else keys_that_exist(valid, n_keys))


def differs_by_head(mask: Pattern, places: Places) -> bool:
    """Whether a mask shows different pairs to different heads, which tiles cannot."""
    for part in split_padding(mask)[0]:
        if part not in _BY_HEAD:
            shown = part.visible(places.tile(slice(0, 1), slice(0, 1)))
            _BY_HEAD[part] = shown.dim() == 4 and shown.shape[1] > 1
        if _BY_HEAD[part]:
            return True
    return False


_BY_HEAD: WeakKeyDictionary[Pattern, bool] = WeakKeyDictionary()
"""What was found for a pattern: a GPU would be asked at every call."""

_KNOWN: WeakKeyDictionary[Pattern, dict[object, Tiling]] = WeakKeyDictionary()
"""Tiles by pattern, for as long as it exists: every layer and batch uses the same."""

_RECORDED: WeakKeyDictionary[Pattern, dict[object, Tiling]] = WeakKeyDictionary()
"""Tiles in CUDA graphs, which read them at every replay."""


def _known(
    parts: tuple[Pattern, ...], sizes: tuple[object, ...], make: Callable[[], Tiling]
) -> Tiling:
    if not parts:
        return make()
    first, *others = parts
    known = _KNOWN.setdefault(first, {})
    # a dead weak reference equals no other, so a new mask is never mistaken for an old one
    key = (*map(ref, others), sizes)
    if key not in known:
        known[key] = make()
        while len(known) > LENGTHS_KEPT:
            known.pop(next(iter(known)))
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        _RECORDED.setdefault(first, {})[key] = known[key]
    return known[key]


def _cut(mask: Pattern, places: Places, n_queries: int, n_keys: int) -> Tiling:
    whole = (range(n_queries), range(n_keys))
    touched = mask.touches(Grid.over(places, *whole, q_size=SIDE, k_size=SIDE))
    row, column = touched.nonzero(as_tuple=True)
    turned = column.argsort(stable=True)
    lists = (
        *_listed(touched.sum(1), column, torch.arange(len(row))),
        *_listed(touched.sum(0), row[turned], turned),
        row,
    )
    *moved, row = _together(lists, places.device)
    by_row, by_column = Lists(*moved[:4]), Lists(*moved[4:])
    parts = zip(row.split(TILES_AT_ONCE), by_row.other.split(TILES_AT_ONCE), strict=True)
    bits = [_bits(mask, places, r.long(), c.long()) for r, c in parts]
    every = torch.cat(bits, -2)
    full = (every == -1).all(-1).all(0).to(torch.uint8)
    return Tiling(by_row, by_column, every, full, _n_long(touched.sum(1)), _n_long(touched.sum(0)))


def _n_long(count: Tensor) -> int:
    """How many blocks have more than `LONG` times the tiles of most."""
    return int((count > LONG * count.median()).sum()) if len(count) else 0


def _listed(count: Tensor, other: Tensor, tile: Tensor) -> Lists:
    order = count.argsort(descending=True, stable=True)
    return Lists(order, pad(count.cumsum(0), (1, 0)), other, tile)


def _together(lists: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Move all tensors to the device together, without waiting for it."""
    whole = torch.cat(list(lists)).int()
    whole = whole.pin_memory() if device.type == "cuda" else whole
    return whole.to(device, non_blocking=True).split([len(one) for one in lists])


def _bits(
    mask: Pattern, places: Places, row: Int[Tensor, " t"], column: Int[Tensor, " t"]
) -> Int[Tensor, "b t side"]:
    """The visible pairs of some tiles, eight to a byte and 64 to a row."""
    side = torch.arange(SIDE, device=row.device)
    at_rows, at_columns = (block[:, None] * SIDE + side for block in (row, column))
    is_row, is_column = at_rows < places.query.shape[-2], at_columns < places.key.shape[-1]
    query = places.query[..., 0][at_rows.clamp(max=places.query.shape[-2] - 1)]
    key = places.key[0][at_columns.clamp(max=places.key.shape[-1] - 1)]
    tiles = Places(query[None, :, :, None], key[None, :, None, :], places.length, tree=places.tree)
    real = is_row[:, :, None] & is_column[:, None, :]
    return _packed(mask.visible(tiles) & real)


def _packed(seen: Bool[Tensor, "*b t side 64"]) -> Int[Tensor, "b t side"]:
    seen = seen.expand(-1, -1, SIDE, -1) if seen.dim() == 4 else seen[None].expand(-1, -1, SIDE, -1)
    eights = seen.unflatten(-1, (-1, 8)).to(torch.uint8)
    weights = 2 ** torch.arange(8, dtype=torch.uint8, device=seen.device)
    return (eights * weights).sum(-1, dtype=torch.uint8).contiguous().view(torch.int64).squeeze(-1)
