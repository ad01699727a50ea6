"""A spinner for work whose length is not known; none where there is no terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


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
