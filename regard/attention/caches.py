"""Caches: projected keys and values, passed in and returned; a longer one shares a shorter's.

A cache is a value: nothing done to a longer cache changes a shorter one. Yet a step does not copy
what is there, for both are views of one room that has space left, and only the cache at its end
may write on in it. `reorder` alone uses a cache up, so that a beam search asks for no new memory
at each of its steps.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

SPARE = 8
"""Room is made for whole multiples of this many positions."""


class Room:
    """Space for the keys and values of some rows, filled from the front."""

    def __init__(self, like: Float[Tensor, "b g k d"], n_rows: int, capacity: int) -> None:
        _, groups, _, width = like.shape
        shape = (n_rows, capacity, groups, width)
        self.key, self.value = like.new_empty(shape), like.new_empty(shape)
        self._other: tuple[Tensor, Tensor] | None = None
        self.filled = 0

    @property
    def capacity(self) -> int:
        """How many positions fit in."""
        return self.key.shape[1]

    def write(self, key: Float[Tensor, "b g k d"], value: Float[Tensor, "b g k d"]) -> "KeyValues":
        """Put positions behind those that are there; the cache of all of them comes back."""
        new = slice(self.filled, self.filled + key.shape[-2])
        self.key[:, new] = key.transpose(1, 2)
        self.value[:, new] = value.transpose(1, 2)
        return self.upto(new.stop)

    def reorder(self, rows: Int[Tensor, " b"]) -> "KeyValues":
        """Put the rows in a new order, into space that the order before the last one had."""
        new = self._other or (torch.empty_like(self.key), torch.empty_like(self.value))
        self._other = (self.key, self.value)
        for to, old in zip(new, self._other, strict=True):
            torch.index_select(old, 0, rows, out=to)
        self.key, self.value = new
        return self.upto(self.filled)

    def upto(self, length: int) -> "KeyValues":
        """The cache of the first positions, which are filled now."""
        self.filled = length
        key, value = (x[:, :length].transpose(1, 2) for x in (self.key, self.value))
        return KeyValues(key, value, self)


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
        if room is None or room.filled != self.length or room.capacity < needed:
            # half as much again, so that a long text is copied a few times and not at every step
            room = Room(self.key, len(self.key), _roomy(max(needed, self.length * 3 // 2)))
            room.write(self.key, self.value)
        return room.write(other.key, other.value)

    def select(self, rows: Int[Tensor, " r"]) -> "KeyValues":
        """The cache of some rows of the batch, as a beam search needs it."""
        if self.room is None or _learns(self.key, self.value):
            return KeyValues(self.key.index_select(0, rows), self.value.index_select(0, rows))
        room = Room(self.key, len(rows), _roomy(self.length + 1))
        for new, old in ((room.key, self.room.key), (room.value, self.room.value)):
            _copy_rows(new, old, rows, self.length)
        return room.upto(self.length)

    def reorder(self, rows: Int[Tensor, " r"]) -> "KeyValues":
        """The same as `select`, but this cache must not be used again."""
        room = self.room
        if room is None or len(rows) != len(self.key) or room.filled != self.length:
            return self.select(rows)
        return room.reorder(rows)


def _roomy(length: int) -> int:
    return -(-length // SPARE) * SPARE


def _copy_rows(new: Tensor, old: Tensor, rows: Int[Tensor, " r"], length: int) -> None:
    """Let new[i] be old[rows[i]]: whole rows, the quickest way, where both rooms are as long."""
    if new.shape[1] == old.shape[1]:
        torch.index_select(old, 0, rows, out=new)
    else:
        new[:, :length] = old[:, :length].index_select(0, rows)


def _learns(*tensors: Tensor) -> bool:
    """Whether a gradient will be asked for, which no shared room could carry."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
