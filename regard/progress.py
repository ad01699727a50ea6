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
    ProgressColumn,
    SpinnerColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def progress_line(
    console: Console, *columns: str | ProgressColumn, is_hidden: bool = False
) -> Progress:
    """A progress line that disappears at the end, with rich's default columns if none are given."""
    is_hidden = is_hidden or not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=is_hidden)


def counter(console: Console) -> Progress:
    """A bar that shows how many pieces of work are done."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return progress_line(console, *columns)


def spinner(console: Console, *, is_hidden: bool = False) -> Progress:
    """A spinner with a description and the elapsed time."""
    columns = (SpinnerColumn(), "{task.description}", TimeElapsedColumn())
    return progress_line(console, *columns, is_hidden=is_hidden)


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Give a function to call after each of `total` pieces, while a bar shows their number."""
    with counter(Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Show a description and the elapsed time; the yielded function changes the description."""
    with spinner(Console(stderr=True)) as line:
        task = line.add_task(what, total=None)
        yield lambda text: line.update(task, description=text)
