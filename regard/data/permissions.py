"""Permissions: files of tensors are for whoever may read the other files of their writer.

The library that writes them makes them for their owner alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_any_file(path: Path) -> Iterator[None]:
    """Whoever writes the file inside leaves it with the permissions of any new file."""
    path.touch()
    mode = path.stat().st_mode
    yield
    path.chmod(mode)
