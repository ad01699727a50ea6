"""Mapped arrays: folders that hold one large array and the facts about it.

    NAME.bin     the numbers, one after another
    NAME.json    version, shape and other facts

A folder is written under a temporary name and renamed at the end: it is complete or absent.
Numbers are mapped from disk, never read as a whole, so an array may be larger than memory.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.lib import format as npy

from regard.data.atomic_writes import written_beside
from regard.data.files import Unreadable, check_is_regular, read_json
from regard.errors import DataError

UNCLEAR = "does not say what it should"
"""The error for facts of another version, or for missing facts."""


@contextmanager
def new_folder(path: Path, who: str) -> Iterator[Path]:
    """A context with a folder to write into; it takes its name once everything is written."""
    if path.exists():
        raise DataError(f"{who}: '{path}' exists; take it away, or open it as it is.")
    with written_beside(path) as partial:
        partial.mkdir(parents=True)
        yield partial


def write_facts(file: Path, facts: Mapping[str, Any]) -> None:
    """Write the facts about an array."""
    text = json.dumps({"version": 1, **facts}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


@final
@dataclass(frozen=True)
class ArrayFolder:
    """A completely written folder; anything wrong with it is a DataError."""

    path: Path
    who: str
    remedy: str = "Take it away and write it anew."

    def facts(self, name: str, expected: Mapping[str, type]) -> dict[str, Any]:
        """The facts about an array; each expected one must be present and of its type."""
        try:
            facts = read_json(self.path / name)
        except Unreadable as error:
            raise self.damaged(f"{name} {error}") from error
        is_known = isinstance(facts, dict) and facts.get("version") == 1
        if not is_known or any(type(facts.get(key)) is not kind for key, kind in expected.items()):
            raise self.damaged(f"{name} {UNCLEAR}")
        return facts

    def numbers(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
        """Map an array; a file of another size than its shape takes is refused."""
        file = self.path / name
        wanted = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        size = file.stat().st_size if file.is_file() else 0
        if min(shape) < 1 or size != wanted:
            said = " × ".join(map(str, shape)) if len(shape) > 1 else f"{shape[0]} ids"
            raise self.damaged(f"{name} has {size:,} bytes; {said} take {wanted:,}")
        return np.memmap(file, dtype=dtype, mode="r", shape=shape)

    def npy(self, name: str) -> np.ndarray:
        """Map a .npy file."""
        try:
            check_is_regular(self.path / name)
            return npy.open_memmap(self.path / name, mode="r")
        except Unreadable as error:
            raise self.damaged(f"{name} {error}") from error
        except (OSError, ValueError, OverflowError) as error:
            raise self.damaged(f"{name} cannot be read ({error})") from error

    def damaged(self, why: str) -> DataError:
        """The error for a folder that changed after it was written."""
        return DataError(f"{self.who}: '{self.path}' is damaged: {why}. {self.remedy}")
