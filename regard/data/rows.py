"""Rows: what stands at each place of a file, the places that cannot be read among them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.examples import Example
from regard.data.files import Broken, tolerant_lines
from regard.errors import DataError

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One place in the files: the example that stands there, or why there is none."""

    path: Path
    number: int
    found: Example | tuple[Broken, ...]


def parsed(path: Path, parse: Callable[[str, int], T]) -> Iterator[tuple[int, T | Broken]]:
    """What each line says, with its number; a line that cannot be read or parsed is broken."""
    for number, line in enumerate(tolerant_lines(path), 1):
        if isinstance(line, Broken):
            yield number, line
            continue
        try:
            yield number, parse(line, number)
        except DataError as error:
            yield number, Broken("format", path, number, str(error))


def rows_of(path: Path, parse: Callable[[str, int], Example]) -> Iterator[Row]:
    """The same as rows, an example for each line."""
    for number, found in parsed(path, parse):
        yield Row(path, number, (found,) if isinstance(found, Broken) else found)


def from_json(line: str, where: str) -> Any:
    """What a line of JSON holds."""
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}); expected one object.") from error


def strict(rows: Iterator[Row]) -> Iterator[Example]:
    """The examples, up to the first place that cannot be read, which is an error."""
    for row in rows:
        if isinstance(row.found, tuple):
            raise DataError(row.found[0].message)
        yield row.found
