"""Rows: what stands at each place of a file, the places that cannot be read among them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.examples import Example
from regard.data.files import Broken
from regard.errors import DataError


@dataclass(frozen=True)
class Row:
    """One place in the files: the example that stands there, or why there is none."""

    path: Path
    number: int
    found: Example | tuple[Broken, ...]


def strict(rows: Iterator[Row]) -> Iterator[Example]:
    """The examples, up to the first place that cannot be read, which is an error."""
    for row in rows:
        if isinstance(row.found, tuple):
            raise DataError(row.found[0].message)
        yield row.found
