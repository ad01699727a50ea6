"""Progress on standard error: a bar for work that is counted, a spinner for other work.

Nothing is shown where there is no terminal.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Something to call after each piece, while a bar on standard error shows how many there are.

    Args:
        what: the word before the bar.
        total: how many pieces there will be.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def spinning(console: Console, *, is_hidden: bool = False) -> Progress:
    """What is done and for how long, on a line that goes away at the end.

    Args:
        console: where; nothing is shown on what is no terminal.
        is_hidden: whether nothing is shown anywhere.
    """
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=is_hidden or not console.is_terminal,
    )


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show what is done and for how long, while it lasts, on standard error."""
    with spinning(Console(stderr=True)) as line:
        line.add_task(what, total=None)
        yield
