"""Rows: what stands at each place of a file, the places that cannot be read among them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.examples import Example
from regard.data.files import Broken, tolerant_lines
from regard.data.regular_files import Unreadable, parse_json
from regard.errors import DataError

T = TypeVar("T")

BEGINS = re.compile(r"""\ufeff?\s*\{\s*(?:["'}]|$)""")
"""How a line begins that is a JSON object, or was meant to be one; "{name} is here" does not."""


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
    if not line.strip():
        raise DataError(f"{where} is empty; expected one object.")
    try:
        return parse_json(line)
    except Unreadable as error:
        raise DataError(f"{where} {error}; expected one object.") from error


def begins_object(line: str) -> bool:
    """Whether a line is a JSON object, or was meant to be one."""
    return BEGINS.match(line) is not None


def check_is_text(where: str, text: str) -> None:
    """Refuse half a character, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} holds half a character (a lone surrogate): "
            f"{text[max(0, error.start - 20) : error.end]!r} is no text. Write the whole "
            "character, or take it out."
        ) from error


def strict(rows: Iterator[Row]) -> Iterator[Example]:
    """The examples, up to the first place that cannot be read, which is an error."""
    for row in rows:
        if isinstance(row.found, tuple):
            raise DataError(row.found[0].message)
        yield row.found
