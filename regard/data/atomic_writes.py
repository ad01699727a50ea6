"""Atomic writes: a file or folder takes its name once its contents are on disk.

    write beside the name  →  synchronise the contents  →  rename  →  synchronise the folder

A kill leaves the old contents or the new ones, and so does a machine that loses its power: a rename
may reach the disk before the contents do, unless these are synchronised first.
"""

import errno
import os
from pathlib import Path

WITHOUT_NAMES = (errno.EINVAL, errno.ENOTSUP)
"""What a file system answers that cannot synchronise a folder; network file systems may not."""


def move_into_place(written: Path, path: Path) -> None:
    """Give a file, or a folder with all that it holds, its name.

    Args:
        written: what was written, in the folder of `path`.
        path: its name; a file that has it already is replaced.
    """
    for each in (*written.rglob("*"), written):
        sync(each)
    written.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Have the system write a file's contents, or a folder's names, to the disk."""
    if os.name == "nt" and path.is_dir():
        # Windows opens no folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir() or error.errno not in WITHOUT_NAMES:
            raise
    finally:
        os.close(handle)
