"""Plain paths: a path in [data] where a table could stand, whose reader its name and content tell.

    valid = "valid.tsv"     is     valid = { name = "tsv", path = "valid.tsv" }

The ending counts, packed or not; without a known one, the first lines. Where the training data are
read by the same reader, its other settings (keys, tags, form) are taken over.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import GENERATORS, READERS
from regard.data.files import lines
from regard.data.readers import FILE_READERS, unpacked
from regard.errors import DataError

SPLITS = ("train", "valid", "test")
KEY_PAIRS = (("source", "target"), ("text", "label"), ("text", "labels"), ("sentence", "label"))
"""Usual keys of JSON lines for a text and its answer, tried in this order."""
N_READ = 20
"""How many lines are looked at."""


def with_readers(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a recipe with a reader for each plain path in [data]."""
    data = table.get("data")
    if not isinstance(data, dict):
        return dict(table)
    train: Mapping[str, Any] = {}
    read = dict(data)
    for split in SPLITS:
        value = data.get(split)
        if isinstance(value, str) and _is_path(value):
            read[split] = _reader(Path(value), train)
        if split == "train" and isinstance(read.get(split), dict):
            train = read[split]
    return {**table, "data": read}


def _is_path(text: str) -> bool:
    """Whether a text in [data] is a path, and not the name of a reader or generator."""
    name = text.partition(":")[0]
    if name in READERS or name in GENERATORS:
        return False
    return "/" in text or _ending(Path(text)) in (*FILE_READERS, "txt") or Path(text).exists()


def _ending(path: Path) -> str:
    return unpacked(path).rpartition(".")[2]


def _reader(path: Path, train: Mapping[str, Any]) -> dict[str, Any]:
    """The reader of a path, with the settings of the training data if that has the same reader."""
    if path.is_dir():
        found: dict[str, Any] = {"name": "shards", "folder": str(path)}
    else:
        ending = _ending(path)
        first = _first_lines(path)
        name = ending if ending in FILE_READERS else _name_by_content(first)
        found = {"name": name, "path": str(path), **(_keys(first) if name == "jsonl" else {})}
    if train.get("name") != found["name"]:
        return found
    place = "folder" if "folder" in found else "path"
    return {**train, place: str(path)}


def _first_lines(path: Path) -> list[str]:
    # a file that cannot be read is told where all files are
    with suppress(DataError, OSError):
        return [line for line in islice(lines(path), N_READ) if line.strip()]
    return []


def _name_by_content(first: list[str]) -> str:
    if first and all("\t" in line for line in first):
        return "tsv"
    return "jsonl" if first and _objects(first) else "running_text"


def _objects(first: list[str]) -> list[dict[str, Any]]:
    """The lines as JSON objects; none if one of them is something else."""
    try:
        rows = [json.loads(line) for line in first]
    except ValueError:
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []


def _keys(first: list[str]) -> dict[str, str]:
    """The keys that the first objects have; none where they are the reader's own."""
    rows = _objects(first)
    for source, target in KEY_PAIRS:
        if rows and all(source in row and target in row for row in rows):
            return {} if source == "source" else {"source": source, "target": target}
    return {}
