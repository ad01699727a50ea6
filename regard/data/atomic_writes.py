"""Atomic writes: a file or folder takes its name once its contents are on disk.

    write beside the name  →  synchronise the contents  →  rename  →  synchronise the folder

A kill or a loss of power leaves either the old contents or the new ones. Without synchronising the
contents first, a rename may reach the disk before them.

safetensors writes files that only their owner may read; `as_any_file` gives a file the permissions
that any new file of this user has.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""The ending of the name under which a file or folder is written before it is renamed."""
FOLDER_SYNC_ERRORS = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot synchronise a folder, such as some network file systems."""
IS_WINDOWS = os.name == "nt"


@contextmanager
def written_beside(path: Path, *, writer: int | None = None) -> Iterator[Path]:
    """A context with a temporary path; what is written there is renamed to `path` at the end.

    An existing file of that name is replaced. Leftovers of a killed process are removed first, and
    an error leaves no temporary file. `writer` distinguishes writers that may write the same file
    at once, for instance by process id.
    """
    partial = path.with_name(path.name + ("" if writer is None else f".{writer}") + PARTIAL)
    _remove(partial)
    try:
        yield partial
        move_into_place(partial, path)
    except BaseException as error:
        _remove(partial)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            # a write to a full disk does not say where
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write beside the name, then rename."""
    with written_beside(path) as partial:
        partial.write_text(text, encoding="utf-8")


def move_into_place(written: Path, path: Path) -> None:
    """Give a file of the same folder, or a folder with all that it holds, its name."""
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
    # Windows synchronises only files that are open for writing
    handle = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir() or error.errno not in FOLDER_SYNC_ERRORS:
            raise
    finally:
        os.close(handle)


@contextmanager
def as_any_file(path: Path) -> Iterator[None]:
    """A context that gives the file written inside default permissions; an error deletes the file.

    A file that existed before keeps its permissions.
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


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
