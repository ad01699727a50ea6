"""Exported: what an export wrote, and the check of the folder before it writes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RunError
from regard.training.run_folder import check_can_be_made


@dataclass(frozen=True)
class Exported:
    """A folder for another program."""

    files: tuple[str, ...]
    """The names of its files."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: what that program answered to the run's own examples."""


Export = Callable[[Path, Path, str | None], Exported]
"""A run, a new folder, and the precision of the weights there, if it is to be another."""


def check_is_new(out: Path) -> None:
    """Refuse a folder that holds something."""
    check_can_be_made(out, "export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"export: '{out}' is not empty. Choose another --out.")
