"""Which links may meet in one chain: each answers for itself, and what none refuses is allowed."""

from collections.abc import Iterable
from itertools import combinations
from typing import Protocol, runtime_checkable

from regard.attention.tables import name_of
from regard.errors import MeetingError


@runtime_checkable
class Meets(Protocol):
    """A link, or positions that turn queries and keys."""

    def cannot_meet(self, other: object) -> str | None:
        """Why another may not stand in one chain with it, and what to take instead."""


def why_not(one: Meets, other: Meets) -> str | None:
    """The reason two links may not meet, or None if they may."""
    return one.cannot_meet(other) or other.cannot_meet(one)


def check(links: Iterable[Meets]) -> None:
    """Refuse a chain in which two links may not meet."""
    for one, other in combinations(links, 2):
        if reason := why_not(one, other):
            raise MeetingError(f"chain: {name_of(one)} and {name_of(other)} cannot meet: {reason}.")
