"""Atomic writes: a file or folder takes its name once its contents are on disk.

    write beside the name  →  synchronise the contents  →  rename  →  synchronise the folder

A kill leaves the old contents or the new ones, and so does a machine that loses its power: a rename
may reach the disk before the contents do, unless these are synchronised first.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""How the names of what is being written end."""
FOLDER_SYNC_ERRORS = (errno.EINVAL, errno.ENOTSUP)
"""What a file system answers that cannot synchronise a folder; network file systems may not."""
IS_WINDOWS = os.name == "nt"


@contextmanager
def written_beside(path: Path, *, writer: int | None = None) -> Iterator[Path]:
    """A name to write a file or a folder under, which takes its own name at the end.

    What a kill left under that name is removed first. If something fails, nothing is left.

    Args:
        path: its own name; a file that has it already is replaced.
        writer: tells apart those that may write the same file at once, such as processes by their
            numbers.
    """
    partial = path.with_name(path.name + ("" if writer is None else f".{writer}") + PARTIAL)
    _remove(partial)
    try:
        yield partial
        move_into_place(partial, path)
    except BaseException:
        _remove(partial)
        raise


def write_text(path: Path, text: str) -> None:
    """Write beside the name, then rename."""
    with written_beside(path) as partial:
        partial.write_text(text, encoding="utf-8")


def move_into_place(written: Path, path: Path) -> None:
    """Give a file, or a folder with all that it holds, its name.

    Args:
        written: what was written, in the folder of `path`.
        path: its name; a file that has it already is replaced.
    """
    sync_all(written)
    written.replace(path)
    sync(path.parent)


def sync_all(path: Path) -> None:
    """Have the system write a file, or a folder with all that it holds, to the disk."""
    for each in (*path.rglob("*"), path):
        sync(each)


def sync(path: Path) -> None:
    """Have the system write a file's contents, or a folder's names, to the disk."""
    if IS_WINDOWS and path.is_dir():
        # Windows opens no folder
        return
    # Windows synchronises only what it may write to
    handle = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir() or error.errno not in FOLDER_SYNC_ERRORS:
            raise
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
