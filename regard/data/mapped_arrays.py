"""Mapped arrays: folders that hold one large array and the facts about it.

    NAME.bin     the numbers, one after another
    NAME.json    version, shape and whatever else is to be known

A folder is written beside its name and renamed at the end: it is there whole, or not at all.
Numbers are mapped from disk, never read as a whole, so an array may be larger than memory.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.atomic_writes import written_beside
from regard.data.regular_files import Unreadable, read_json
from regard.errors import DataError


@contextmanager
def new_folder(path: Path, who: str) -> Iterator[Path]:
    """A folder to write into, which takes its name when everything is written."""
    if path.exists():
        raise DataError(f"{who}: '{path}' exists; take it away, or open it as it is.")
    with written_beside(path) as partial:
        partial.mkdir(parents=True)
        yield partial


def write_facts(file: Path, facts: Mapping[str, Any]) -> None:
    """Write what is to be known about an array."""
    text = json.dumps({"version": 1, **facts}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def read_facts(file: Path, who: str, expected: Mapping[str, type]) -> dict[str, Any]:
    """What is known about an array; each expected fact must be there and of its type."""
    try:
        facts = read_json(file)
    except Unreadable as error:
        raise damaged(file.parent, who, f"{file.name} {error}") from error
    is_known = isinstance(facts, dict) and facts.get("version") == 1
    if not is_known or any(type(facts.get(key)) is not kind for key, kind in expected.items()):
        raise damaged(file.parent, who, f"{file.name} does not say what it should")
    return facts


def open_array(file: Path, who: str, dtype: str, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Map an array; a file of another size than its shape takes is refused."""
    wanted = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    size = file.stat().st_size if file.is_file() else 0
    if min(shape) < 1 or size != wanted:
        said = " × ".join(map(str, shape))
        raise damaged(file.parent, who, f"{file.name} has {size:,} bytes; {said} take {wanted:,}")
    return np.memmap(file, dtype=dtype, mode="r", shape=shape)


def damaged(path: Path, who: str, why: str) -> DataError:
    """The error for a folder that is not as it was written."""
    return DataError(f"{who}: '{path}' is damaged: {why}. Take it away and write it anew.")
