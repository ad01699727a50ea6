"""Where a run may be: a folder that can be made, and that no other process is training in.

The system lets go of a lock when its process ends, however it ends; no file is left behind.
"""

import difflib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from regard.errors import RunError

try:
    import fcntl
except ImportError:  # where folders cannot be locked, two trainings of one run are not told apart
    fcntl = None  # type: ignore[assignment]


def check_can_be_made(path: Path, who: str) -> None:
    """Say before anything long begins that a file or folder cannot be made where it is wanted.

    Args:
        path: what is to be made, with the folders around it.
        who: makes it, for errors.
    """
    there = next(each for each in (path, *path.parents) if each.exists())
    if there != path and not there.is_dir():
        raise RunError(
            f"{who}: '{there}' is a file, so that '{path}' cannot be made in it. Choose another "
            "place."
        )
    if not os.access(there, os.W_OK):
        raise RunError(f"{who}: nothing may be written into '{there}'. Choose another place.")


def check_is_there(run: Path) -> None:
    """Refuse to go on with a run whose folder is not there: its name was most likely mistyped."""
    if run.exists():
        return
    beside = run.parent.iterdir() if run.parent.is_dir() else ()
    names = [each.name for each in beside if (each / "recipe.toml").is_file()]
    near = difflib.get_close_matches(run.name, names, n=1)
    hint = f" Did you mean '{run.parent / near[0]}'?" if near else ""
    raise RunError(
        f"train: there is no run '{run}' to go on with.{hint} Give a run that is there, or leave "
        "--resume out to begin a new run; a script that always gives --resume makes the folder "
        f"first: mkdir -p {quote(str(run))}."
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there; an error if somebody holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
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
