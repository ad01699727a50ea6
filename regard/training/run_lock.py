"""Where a run may be: a folder that can be made, and that no other process is training in.

The system lets go of a lock when its process ends, however it ends; no file is left behind. Where
folders cannot be locked (Windows), a file NAME.lock beside the folder stands for the lock, and a
training that is killed leaves it behind.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.data.regular_files import is_text
from regard.errors import RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # a module that is not there has no other type


def check_can_be_made(path: Path, who: str) -> None:
    """Say before anything long begins that a file or folder cannot be made where it is wanted.

    Args:
        path: what is to be made, with the folders around it.
        who: makes it, for errors.
    """
    if not is_text(str(path)):
        raise RunError(
            f"{who}: the name {str(path)!r} is not UTF-8, so that no card can hold it. Choose "
            "another name."
        )
    there = next(each for each in (path, *path.parents) if each.exists())
    if there != path and not there.is_dir():
        raise RunError(
            f"{who}: '{there}' is a file, so that '{path}' cannot be made in it. Choose another "
            "place."
        )
    if not os.access(there, os.W_OK):
        raise RunError(f"{who}: nothing may be written into '{there}'. Choose another place.")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there; an error if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked_by_a_file(folder) if fcntl is None else _locked_by_the_system(folder):
        yield


@contextmanager
def _locked_by_the_system(folder: Path) -> Iterator[None]:
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"train: '{folder}' is being trained in already. Wait until that has ended, or "
                "choose another --out."
            ) from error
        yield
    finally:
        os.close(held)


@contextmanager
def _locked_by_a_file(folder: Path) -> Iterator[None]:
    file = folder.resolve().parent / f"{folder.resolve().name}.lock"
    try:
        file.touch(exist_ok=False)
    except FileExistsError as error:
        raise RunError(
            f"train: '{folder}' is being trained in already: there is '{file}'. Wait until that "
            "has ended; if it was killed, delete this file."
        ) from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
