"""Caches: projected keys and values, passed in and returned; a longer one shares a shorter's.

A cache is a value: nothing done to a longer cache changes a shorter one. Yet a step does not copy
what is there, for both are views of one room that has space left, and only the cache at its end
may write on in it. `reordered` alone uses caches up, so that a beam search asks for no new memory
at each of its steps; the rooms of all layers lie in one house, which is reordered by one copy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

SPARE = 16
"""Room is made for whole multiples of this many positions."""


class House:
    """Rooms of one size for the same rows, in one tensor."""

    def __init__(
        self, like: Float[Tensor, "b g k d"], *, n_rooms: int, n_rows: int, capacity: int
    ) -> None:
        _, groups, _, width = like.shape
        self.n_rows, self.capacity = n_rows, capacity
        self._now = like.new_empty(n_rows, 2 * n_rooms, groups, capacity, width)
        self._other: Tensor | None = None
        self.rooms = [Room(self, *pair) for pair in self._pairs()]

    def reorder(self, rows: Int[Tensor, " b"], length: int) -> None:
        """Put the rows in a new order, into space that the order before the last one had."""
        new = torch.empty_like(self._now) if self._other is None else self._other
        filled, free = (whole.narrow(3, 0, length) for whole in (self._now, new))
        torch.index_select(filled, 0, rows, out=free)
        self._now, self._other = new, self._now
        for room, (key, value) in zip(self.rooms, self._pairs(), strict=True):
            room.key, room.value = key, value

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Where each room has its keys and values."""
        parts = self._now.unbind(1)
        return list(zip(parts[::2], parts[1::2], strict=True))


class Room:
    """Space for the keys and values of some rows, filled from the front."""

    def __init__(
        self, house: House, key: Float[Tensor, "b g c d"], value: Float[Tensor, "b g c d"]
    ) -> None:
        self.house, self.key, self.value = house, key, value
        self.filled = 0

    def write(self, key: Float[Tensor, "b g k d"], value: Float[Tensor, "b g k d"]) -> "KeyValues":
        """Put positions behind those that are there; the cache of all of them comes back."""
        begin, count = self.filled, key.shape[-2]
        self.key.narrow(2, begin, count).copy_(key)
        self.value.narrow(2, begin, count).copy_(value)
        return self.upto(begin + count)

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
    room: Room | None = None
    """Where the two stand, if others may follow them there."""

    @property
    def length(self) -> int:
        """How many positions it holds."""
        return self.key.shape[-2]

    def append(self, other: "KeyValues") -> "KeyValues":
        """These positions, then the other ones."""
        if _learns(self.key, self.value, other.key, other.value):
            key = torch.cat([self.key, other.key], -2)
            return KeyValues(key, torch.cat([self.value, other.value], -2))
        room, needed = self.room, self.length + other.length
        if room is None or room.filled != self.length or room.house.capacity < needed:
            capacity = _roomy(self.length, needed)
            room = House(self.key, n_rooms=1, n_rows=len(self.key), capacity=capacity).rooms[0]
            room.write(self.key, self.value)
        return room.write(other.key, other.value)

    def select(self, rows: Int[Tensor, " r"]) -> "KeyValues":
        """The cache of some rows of the batch."""
        return KeyValues(self.key.index_select(0, rows), self.value.index_select(0, rows))


def reordered(caches: Sequence[KeyValues], rows: Int[Tensor, " r"]) -> list[KeyValues]:
    """The caches of some rows, as a beam search needs them; those given must not be used again.

    Args:
        caches: of one shape, one for each layer of a model.
        rows: the rows that go on.
    """
    if any(_learns(cache.key, cache.value) for cache in caches):
        return [cache.select(rows) for cache in caches]
    length, house = caches[0].length, _shared_house(caches, len(rows))
    if house is not None:
        house.reorder(rows, length)
        return [room.upto(length) for room in house.rooms]
    capacity = _roomy(length, length + 1)
    house = House(caches[0].key, n_rooms=len(caches), n_rows=len(rows), capacity=capacity)
    return [room.take(cache, rows) for room, cache in zip(house.rooms, caches, strict=True)]


def _shared_house(caches: Sequence[KeyValues], n_rows: int) -> House | None:
    """The house that these caches fill and no others, with space for one more position."""
    rooms = [cache.room for cache in caches]
    house = rooms[0].house if rooms[0] is not None else None
    if house is None or house.rooms != rooms or house.n_rows != n_rows:
        return None
    is_end = all(
        room.filled == cache.length for room, cache in zip(house.rooms, caches, strict=True)
    )
    return house if is_end and caches[0].length < house.capacity else None


def _roomy(length: int, needed: int) -> int:
    """Half as much again, so that a long text is copied a few times and not at every step."""
    return -(-max(needed, length * 3 // 2) // SPARE) * SPARE


def _learns(*tensors: Tensor) -> bool:
    """Whether a gradient will be asked for, which no shared room could carry."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
