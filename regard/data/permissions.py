"""Permissions: files of tensors are for whoever may read the other files of their writer.

The library that writes them makes them for their owner alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_any_file(path: Path) -> Iterator[None]:
    """A file that is written inside has the permissions of any new one; none is left if that fails.

    One that was there before keeps what it had.
    """
    was_there = path.exists()
    path.touch()
    mode = path.stat().st_mode
    try:
        yield
    except BaseException:
        if not was_there:
            path.unlink(missing_ok=True)
        raise
    path.chmod(mode)
