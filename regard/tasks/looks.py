"""Looks: how `regard look` shows an input, in the terminal, as JSON or as a file."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from rich.console import Console

from regard.decoding import Search
from regard.inspecting.panels import View
from regard.tasks.ready_run import ReadyRun

DOTS_PER_INCH = 150
"""Of figures that are written as pixels."""


@final
@dataclass(frozen=True)
class LookRequest:
    """What the caller wants to see, and how."""

    inputs: tuple[str, ...]
    """Texts or addresses of pictures, as they were typed."""
    view: View
    target: str | None
    """An answer to look at instead of the run's own."""
    search: Search
    out: Path | None
    """The file that is written; its ending says of which kind."""
    has_grid: bool
    """Whether every layer and head is drawn in one picture."""
    has_kind: bool
    """Whether the caller chose the kind of attention."""


@final
@dataclass(frozen=True)
class ShownLook:
    """What was looked at, ready to be shown in each form."""

    notes: tuple[str, ...]
    """What the user is told on standard error."""
    as_json: Callable[[], str]
    show: Callable[[Console], None]
    write: Callable[[Path], None]


Waiting = Callable[[str], AbstractContextManager[None]]
"""Shows that work goes on, and what it is."""


@runtime_checkable
class Looks(Protocol):
    """How inputs of a task are looked at."""

    def input_of(self, typed: Sequence[str], one_text: Callable[[Sequence[str]], str]) -> list[str]:
        """The inputs that were typed; `one_text` reads a single text, from standard input too."""

    def look(self, run: ReadyRun, request: LookRequest, waiting: Waiting) -> ShownLook:
        """Look at the inputs; what cannot be shown is refused before an answer is searched."""


def counted_words(text: str) -> str:
    """How much there is to read, for people.

    >>> counted_words("to be or not to be")
    '6 words'
    """
    count = len(text.split())
    return f"{count:,} word{'' if count == 1 else 's'}"
