"""Roles: which pieces of a published vocabulary do what our four special pieces do."""

from typing import NamedTuple


class Roles(NamedTuple):
    """Pieces by what they do. None: the vocabulary has no such piece, and ours is never said."""

    padding: str | None
    begin: str | None
    end: str
    unknown: str | None
    mask: str | None = None
    """What stands for a hidden word."""

    @property
    def specials(self) -> tuple[str | None, ...]:
        """In the order of our special pieces."""
        return self.padding, self.begin, self.end, self.unknown
