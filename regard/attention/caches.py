"""Caches: projected keys and values, passed in and returned; a longer one shares a shorter's.

    KeyValues        every position; it grows with the text
    WindowedPast     the positions that a pattern may still show; bounded
    CompressedPast   the slots of a memory, and the few positions that are not merged yet

A cache is a value: nothing done to a longer cache changes a shorter one. Yet a step does not copy
what is there: both are views of one storage that has space left, and only the cache at its end
may write on in it. `reordered` alone uses caches up, so that a beam search needs no new memory at
each of its steps; the storage of all layers lies in one stack, which is reordered by one copy.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

STORAGE_STEP = 16
"""Storage is made for whole multiples of this many positions."""


@runtime_checkable
class Past(Protocol):
    """What an attention remembers of the positions it has read."""

    @property
    def length(self) -> int:
        """How many positions were read."""

    @property
    def n_kept(self) -> int:
        """How many keys are held for them."""

    def select(self, rows: Int[Tensor, " r"]) -> "Past":
        """What is remembered of some rows of the batch."""


@runtime_checkable
class BoundedPattern(Protocol):
    """A pattern under which keys fall out of sight for good."""

    def still_seen(self, length: int) -> tuple[range, ...] | None:
        """The keys before `length` that a query from there on may see; None if it is all."""


class StackedStorage:
    """The storage of all layers, of one size for the same rows, in one tensor."""

    def __init__(
        self, like: Float[Tensor, "b g k d"], *, n_layers: int, n_rows: int, capacity: int
    ) -> None:
        _, groups, _, width = like.shape
        self.n_rows, self.capacity = n_rows, capacity
        # by position, so that what is filled lies together and rows are copied in one piece each
        self._now = like.new_empty(capacity, n_rows, 2 * n_layers, groups, width)
        self._other: Tensor | None = None
        self.layers = [KeyValueStorage(self, *views) for views in self._views()]

    def reorder(self, rows: Int[Tensor, " b"], length: int) -> None:
        """Put the rows in a new order, into space that the order before the last one had."""
        new = torch.empty_like(self._now) if self._other is None else self._other
        filled, free = (whole.flatten(0, 1)[: length * self.n_rows] for whole in (self._now, new))
        first = torch.arange(length, device=rows.device)[:, None] * self.n_rows
        torch.index_select(filled, 0, (first + rows).flatten(), out=free)
        self._now, self._other = new, self._now
        for storage, (key, value, both) in zip(self.layers, self._views(), strict=True):
            storage.key, storage.value, storage.both = key, value, both

    def _views(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Where each layer has its keys, its values, and the two side by side."""
        parts = self._now.permute(2, 1, 3, 0, 4).unbind()
        return list(zip(parts[::2], parts[1::2], self._now.split(2, 2), strict=True))


class KeyValueStorage:
    """Space for the keys and values of some rows, filled from the front."""

    def __init__(
        self,
        stack: StackedStorage,
        key: Float[Tensor, "b g c d"],
        value: Float[Tensor, "b g c d"],
        both: Float[Tensor, "c b 2 g d"],
    ) -> None:
        self.stack, self.key, self.value, self.both = stack, key, value, both
        self.filled = 0

    def write(self, key: Float[Tensor, "b g k d"], value: Float[Tensor, "b g k d"]) -> "KeyValues":
        """Put positions behind those that are there; the cache of all of them comes back."""
        begin, count = self.filled, key.shape[-2]
        self.key.narrow(2, begin, count).copy_(key)
        self.value.narrow(2, begin, count).copy_(value)
        return self.upto(begin + count)

    def write_one(self, both: Float[Tensor, "b 2 g d"]) -> "KeyValues":
        """Put one position behind those that are there, its keys and values side by side."""
        self.both[self.filled].copy_(both)
        return self.upto(self.filled + 1)

    def take(self, cache: "KeyValues", rows: Int[Tensor, " b"]) -> "KeyValues":
        """Some rows of a cache that stands elsewhere; the cache of these comes back."""
        taken = self.upto(cache.length)
        torch.index_select(cache.key, 0, rows, out=taken.key)
        torch.index_select(cache.value, 0, rows, out=taken.value)
        return taken

    def upto(self, length: int) -> "KeyValues":
        """The cache of the first positions, which count as filled now."""
        self.filled = length
        return KeyValues(self.key.narrow(2, 0, length), self.value.narrow(2, 0, length), self)


class KeyValues(NamedTuple):
    """Projected keys and values: the cache of one attention."""

    key: Float[Tensor, "b g k d"]
    value: Float[Tensor, "b g k d"]
    storage: KeyValueStorage | None = None
    """Where the two stand, if others may follow them there."""

    @property
    def length(self) -> int:
        """How many positions it holds."""
        return self.key.shape[-2]

    @property
    def n_kept(self) -> int:
        """All of them."""
        return self.length

    def at(self, positions: Int[Tensor, " k"]) -> "KeyValues":
        """Some of the positions it holds, by their places in it."""
        return KeyValues(
            self.key.index_select(-2, positions), self.value.index_select(-2, positions)
        )

    def append(self, other: "KeyValues") -> "KeyValues":
        """These positions, then the other ones."""
        if _learns(self.key, self.value, other.key, other.value):
            key = torch.cat([self.key, other.key], -2)
            return KeyValues(key, torch.cat([self.value, other.value], -2))
        storage, needed = self.storage, self.length + other.length
        if storage is None or not self._may_write(needed):
            capacity = _with_spare(self.length, needed)
            storage = StackedStorage(
                self.key, n_layers=1, n_rows=len(self.key), capacity=capacity
            ).layers[0]
            storage.write(self.key, self.value)
        return storage.write(other.key, other.value)

    def append_one(self, both: Float[Tensor, "b 2 g d"]) -> "KeyValues":
        """The same for one position whose keys and values stand side by side; nothing learns."""
        if self.storage is not None and self._may_write(self.length + 1):
            return self.storage.write_one(both)
        return self.append(KeyValues(both[:, 0, :, None], both[:, 1, :, None]))

    def _may_write(self, needed: int) -> bool:
        """Whether it stands at the end of a storage with space left."""
        storage = self.storage
        return (
            storage is not None
            and storage.filled == self.length
            and needed <= storage.stack.capacity
        )

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

    def append(self, new: KeyValues) -> "WindowedPast":
        """These, and the positions that come next."""
        end = self.length + new.length
        more = torch.arange(self.length, end, device=self.positions.device)
        return WindowedPast(self.kept.append(new), torch.cat([self.positions, more]), end)

    def trimmed(self, pattern: BoundedPattern) -> "WindowedPast":
        """Without what no later query can see."""
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
    """Merged slots, the first token's before them, and the positions that wait to be merged."""

    slots: KeyValues
    waiting: KeyValues
    """Fewer than a slot takes."""
    length: int

    @property
    def n_kept(self) -> int:
        """Slots and waiting positions together."""
        return self.slots.length + self.waiting.length

    def select(self, rows: Int[Tensor, " r"]) -> "CompressedPast":
        """What is kept of some rows of the batch."""
        return self._replace(slots=self.slots.select(rows), waiting=self.waiting.select(rows))


def reordered(caches: Sequence[KeyValues], rows: Int[Tensor, " r"]) -> list[KeyValues]:
    """The caches of some rows, as a beam search needs them; those given must not be used again.

    Args:
        caches: of one shape, one for each layer of a model.
        rows: the rows that go on.
    """
    if any(_learns(cache.key, cache.value) for cache in caches):
        return [cache.select(rows) for cache in caches]
    length, stack = caches[0].length, _shared_stack(caches, len(rows))
    if stack is not None:
        stack.reorder(rows, length)
        return [storage.upto(length) for storage in stack.layers]
    capacity = _with_spare(length, length + 1)
    stack = StackedStorage(caches[0].key, n_layers=len(caches), n_rows=len(rows), capacity=capacity)
    return [storage.take(cache, rows) for storage, cache in zip(stack.layers, caches, strict=True)]


def _shared_stack(caches: Sequence[KeyValues], n_rows: int) -> StackedStorage | None:
    """The stack that these caches fill and no others, with space for one more position."""
    layers = [cache.storage for cache in caches]
    stack = layers[0].stack if layers[0] is not None else None
    if stack is None or stack.layers != layers or stack.n_rows != n_rows:
        return None
    is_end = all(
        storage.filled == cache.length for storage, cache in zip(stack.layers, caches, strict=True)
    )
    return stack if is_end and caches[0].length < stack.capacity else None


def _with_spare(length: int, needed: int) -> int:
    """Half as much again, so that a long text is copied a few times and not at every step."""
    return -(-max(needed, length * 3 // 2) // STORAGE_STEP) * STORAGE_STEP


def _learns(*tensors: Tensor) -> bool:
    """Whether a gradient will be needed, which shared storage cannot carry."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
