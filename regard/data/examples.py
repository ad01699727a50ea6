"""Example: one source text with the texts that answer it."""

from dataclasses import dataclass

from regard.errors import DataError


@dataclass(frozen=True)
class Example:
    """What every reader and every generator gives."""

    source: str
    targets: tuple[str, ...]
    """One target, or several references for the same source."""
    links: tuple[tuple[int, int], ...] | None = None
    """True alignment of the first target, where it is known: (source, target) character pairs."""
    group: str | None = None
    """What the example belongs to, such as its language, where scores are wanted apart."""

    def __post_init__(self) -> None:
        if not self.targets:
            raise DataError(f"example: '{self.source[:40]}' has no target; give at least one.")
