"""Caches: projected keys and values, passed in and returned; successive ones share storage.

    KeyValues        every position; it grows with the text
    WindowedPast     the positions that a later query may still see; bounded
    CompressedPast   the slots of a memory, and the few positions that are not merged yet

A cache is immutable: extending it leaves the shorter cache unchanged. Yet a step copies nothing:
both caches are views of one storage with spare space, in which only the cache that ends at its end
may append. Only `reordered` consumes its caches, so that a beam search allocates no memory at each
step; the storage of all layers is one tensor, which is reordered by one copy.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

STORAGE_STEP = 16
"""Storage is allocated in multiples of this many positions."""


@runtime_checkable
class Past(Protocol):
    """The interface of all caches: what an attention keeps of the positions it has read."""

    @property
    def length(self) -> int:
        """How many positions were read."""

    @property
    def n_kept(self) -> int:
        """How many keys are held for them."""

    @property
    def n_rows(self) -> int:
        """The number of rows in its batch."""

    def select(self, rows: Int[Tensor, " r"]) -> "Past":
        """The cache of some rows of the batch."""


@runtime_checkable
class BoundedPattern(Protocol):
    """A pattern under which old keys become invisible to all later queries."""

    def still_seen(self, length: int) -> tuple[range, ...] | None:
        """The keys before `length` that a query from there on may see; None if it is all."""


class Storage:
    """Space for the keys and values of all layers, of the same rows, filled from the front."""

    def __init__(self, caches: Sequence["KeyValues"], n_rows: int, capacity: int) -> None:
        _, groups, _, width = caches[0].key.shape
        self.n_rows, self.capacity, self.filled = n_rows, capacity, [0] * len(caches)
        # positions first, so that the filled part is contiguous
        self._use(caches[0].key.new_empty(capacity, n_rows, 2 * len(caches), groups, width))
        self._other: Tensor | None = None

    def write(self, layer: int, key: Tensor, value: Tensor) -> "KeyValues":
        """Append positions to those of a layer, and return the cache of all of them."""
        begin, count = self.filled[layer], key.shape[-2]
        self.keys[layer].narrow(2, begin, count).copy_(key)
        self.values[layer].narrow(2, begin, count).copy_(value)
        return self.upto(layer, begin + count)

    def write_one(self, layer: int, both: Float[Tensor, "b 2 g d"]) -> "KeyValues":
        """Append one position to those of a layer, its keys and values in one tensor."""
        self.both[layer][self.filled[layer]].copy_(both)
        return self.upto(layer, self.filled[layer] + 1)

    def upto(self, layer: int, length: int) -> "KeyValues":
        """The cache of a layer's first positions, which count as filled now."""
        self.filled[layer] = length
        key, value = self.keys[layer].narrow(2, 0, length), self.values[layer].narrow(2, 0, length)
        return KeyValues(key, value, self, layer)

    def reorder(self, rows: Int[Tensor, " b"], length: int) -> None:
        """Reorder the rows into a second buffer; the two buffers alternate."""
        new = torch.empty_like(self._now) if self._other is None else self._other
        filled, free = (whole.flatten(0, 1)[: length * self.n_rows] for whole in (self._now, new))
        first = torch.arange(length, device=rows.device)[:, None] * self.n_rows
        torch.index_select(filled, 0, (first + rows).flatten(), out=free)
        self._other = self._now
        self._use(new)

    def _use(self, whole: Float[Tensor, "c b l2 g d"]) -> None:
        """Set each layer's views of its keys, its values, and both together."""
        parts = whole.permute(2, 1, 3, 0, 4).unbind()
        self._now, self.keys, self.values = whole, parts[::2], parts[1::2]
        self.both = whole.split(2, 2)


class KeyValues(NamedTuple):
    """Projected keys and values: the cache of one attention."""

    key: Float[Tensor, "b g k d"]
    value: Float[Tensor, "b g k d"]
    storage: Storage | None = None
    """The storage of both, if positions may be appended there."""
    layer: int = 0
    """The number of the layer in the storage."""

    @property
    def length(self) -> int:
        """How many positions it holds."""
        return self.key.shape[-2]

    @property
    def n_kept(self) -> int:
        """All of them."""
        return self.length

    @property
    def n_rows(self) -> int:
        """The number of rows in its batch."""
        return self.key.shape[0]

    def at(self, places: Int[Tensor, " k"]) -> "KeyValues":
        """The cache of some positions, by their indices in it."""
        return KeyValues(self.key.index_select(-2, places), self.value.index_select(-2, places))

    def append(self, other: "KeyValues") -> "KeyValues":
        """The cache of these positions followed by the other ones."""
        # an exported graph is a function of tensors, without a storage beside them
        if _learns(self, other) or torch.compiler.is_exporting():
            key = torch.cat([self.key, other.key], -2)
            return KeyValues(key, torch.cat([self.value, other.value], -2))
        storage, needed = self.storage, self.length + other.length
        if storage is None or not self._may_write(needed):
            storage = Storage([self], len(self.key), _with_spare(self.length, needed))
            return storage.write(0, self.key, self.value).append(other)
        return storage.write(self.layer, other.key, other.value)

    def append_one(self, both: Float[Tensor, "b 2 g d"]) -> "KeyValues":
        """The same for one position with keys and values in one tensor, without gradients."""
        if self.storage is not None and self._may_write(self.length + 1):
            return self.storage.write_one(self.layer, both)
        return self.append(KeyValues(both[:, 0, :, None], both[:, 1, :, None]))

    def _may_write(self, needed: int) -> bool:
        """Whether the cache ends where its storage is filled to, and space is left."""
        storage = self.storage
        if storage is None or storage.filled[self.layer] != self.length:
            return False
        return needed <= storage.capacity

    def select(self, rows: Int[Tensor, " r"]) -> "KeyValues":
        """The cache of some rows of the batch."""
        return KeyValues(self.key.index_select(0, rows), self.value.index_select(0, rows))


class WindowedPast(NamedTuple):
    """Keys and values that may still be seen, each with its position."""

    kept: KeyValues
    positions: Int[Tensor, " k"]
    length: int

    @property
    def n_kept(self) -> int:
        """How many may still be seen."""
        return self.kept.length

    @property
    def n_rows(self) -> int:
        """The number of rows in its batch."""
        return self.kept.n_rows

    def append(self, new: KeyValues) -> "WindowedPast":
        """The cache with the next positions appended."""
        end = self.length + new.length
        more = torch.arange(self.length, end, device=self.positions.device)
        return WindowedPast(self.kept.append(new), torch.cat([self.positions, more]), end)

    def trimmed(self, pattern: BoundedPattern) -> "WindowedPast":
        """The cache without keys that no later query can see."""
        seen = pattern.still_seen(self.length)
        if seen is None:
            return self
        is_seen = torch.zeros_like(self.positions, dtype=torch.bool)
        for each in seen:
            is_seen |= (self.positions >= each.start) & (self.positions < each.stop)
        places = is_seen.nonzero().squeeze(1)
        if len(places) == len(self.positions):
            return self
        return WindowedPast(self.kept.at(places), self.positions[places], self.length)

    def select(self, rows: Int[Tensor, " r"]) -> "WindowedPast":
        """What is kept of some rows of the batch."""
        return self._replace(kept=self.kept.select(rows))


class CompressedPast(NamedTuple):
    """Merged slots, the first token's before them, and the positions not merged yet."""

    slots: KeyValues
    waiting: KeyValues
    """Positions not merged yet, fewer than a slot takes."""
    length: int

    @property
    def n_kept(self) -> int:
        """Slots and waiting positions together."""
        return self.slots.length + self.waiting.length

    @property
    def n_rows(self) -> int:
        """The number of rows in its batch."""
        return self.slots.n_rows

    def select(self, rows: Int[Tensor, " r"]) -> "CompressedPast":
        """What is kept of some rows of the batch."""
        return self._replace(slots=self.slots.select(rows), waiting=self.waiting.select(rows))


def reordered(caches: Sequence[KeyValues], rows: Int[Tensor, " r"]) -> list[KeyValues]:
    """The caches of the rows that continue in a beam search; the old ones must not be used again.

    There is one cache for each layer of a model, all of one shape.
    """
    if _learns(*caches):
        return [cache.select(rows) for cache in caches]
    length, storage, layers = caches[0].length, caches[0].storage, range(len(caches))
    fits = storage is not None and (storage.n_rows, len(storage.filled)) == (len(rows), len(caches))
    # all of them end where one storage is filled to, with space left
    if (
        storage is not None
        and fits
        and all(
            cache.storage is storage and cache.layer == layer and cache._may_write(length + 1)
            for layer, cache in enumerate(caches)
        )
    ):
        storage.reorder(rows, length)
        return [storage.upto(layer, length) for layer in layers]
    storage = Storage(caches, len(rows), _with_spare(length, length + 1))
    moved = [storage.upto(layer, length) for layer in layers]
    for old, new in zip(caches, moved, strict=True):
        torch.index_select(old.key, 0, rows, out=new.key)
        torch.index_select(old.value, 0, rows, out=new.value)
    return moved


def _with_spare(length: int, needed: int) -> int:
    """Half as much again, so that a long text is copied a few times instead of at every step."""
    return -(-max(needed, length * 3 // 2) // STORAGE_STEP) * STORAGE_STEP


def _learns(*caches: KeyValues) -> bool:
    """Whether a gradient is needed, which writing into shared storage would break."""
    tensors = (x for cache in caches for x in (cache.key, cache.value))
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
