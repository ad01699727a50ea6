"""Documents: one JSON object a line, of whose parts some are read and one is to be written.

    {"title": …, "abstract": …, "sections": [[heading, text], …]}     papers and their abstracts
    {"title": …, "source": [sentence, …], "target": [summary, …]}     SciTLDR

A part may be a text, a list of texts, or a list of headings with texts; all spaces become one. A
document is cut at `max_words` if that is asked for, as Liu et al. 2018 cut theirs, and never else.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.examples import Example
from regard.data.files import lines
from regard.data.rows import Row, begins_object, check_is_text, from_json, rows_of, strict
from regard.errors import DataError, SettingError

T = TypeVar("T")


@dataclass(frozen=True)
class Documents:
    """Documents and what was written about them; a list of answers is a list of references."""

    path: Path
    source: tuple[str, ...] = ("title", "sections")
    """The keys of what is read, in this order."""
    target: str = "abstract"
    """The key of what is to be written."""
    max_words: int | None = None
    """How many words are read of each document; all unless given."""
    normalise: str | None = None
    """Nothing; documents are read as they are."""

    def __post_init__(self) -> None:
        if not self.source:
            raise SettingError("documents: source names no key. Give at least one.")
        if self.max_words is not None and self.max_words < 1:
            raise SettingError(f"documents: max_words must be at least 1, got {self.max_words}.")
        if self.normalise is not None:
            raise SettingError("documents: normalise is for pairs of sentences. Leave it out.")

    def examples(self) -> Iterator[Example]:
        """Every document."""
        return strict(self.rows())

    def sources(self) -> Iterator[str]:
        """What is read of every document, nothing of an empty line.

        Nothing needs to be written about it.
        """
        for number, line in enumerate(lines(self.path), 1):
            yield self.source_of(line, self._line(number)) if line.strip() else ""

    def is_row(self, line: str) -> bool:
        """Whether a line that may also be a plain text is a document."""
        return begins_object(line)

    def source_of(self, line: str, where: str) -> str:
        """What is read of one object, wherever it comes from."""
        return _taken(line, where, self._read)

    def rows(self) -> Iterator[Row]:
        """Every line, the broken ones too."""
        return rows_of(self.path, self._parse)

    def _parse(self, line: str, number: int) -> Example:
        return _taken(line, self._line(number), self._example)

    def _line(self, number: int) -> str:
        return f"documents: '{self.path}', line {number}"

    def _read(self, where: str, row: dict[str, Any]) -> str:
        words = " ".join(_text(where, row, key) for key in self.source).split()
        check_is_text(where, " ".join(words))
        return " ".join(words[: self.max_words])

    def _example(self, where: str, row: dict[str, Any]) -> Example:
        text = self._read(where, row)
        answer = _value(where, row, self.target)
        several = answer if isinstance(answer, list) and answer else [answer]
        targets = [" ".join(one.split()) for one in several if isinstance(one, str)]
        if len(targets) < len(several) or not all(targets):
            raise DataError(
                f"{where}: '{self.target}' must be a text or a list of texts that are not empty, "
                f"got {json.dumps(answer)[:60]}."
            )
        for one in targets:
            check_is_text(where, one)
        return Example(text, tuple(targets))


def _taken(line: str, where: str, take: Callable[[str, dict[str, Any]], T]) -> T:
    """What is taken of the object that a line holds."""
    row = from_json(line, where)
    if not isinstance(row, dict):
        raise DataError(f"{where} must be one object, got {type(row).__name__}.")
    try:
        return take(where, row)
    except RecursionError as error:
        raise DataError(
            f"{where} is nested too deeply; expected texts and short lists of them."
        ) from error


def _value(where: str, row: dict[str, Any], key: str) -> Any:
    """What stands under a key; an error that names the keys there are if nothing does."""
    if key not in row:
        raise DataError(f"{where} has no '{key}'; it has {', '.join(row) or 'no keys'}.")
    return row[key]


def _text(where: str, row: dict[str, Any], key: str) -> str:
    """A part of a document as one text."""
    parts = _parts(_value(where, row, key))
    if parts is None:
        raise DataError(
            f"{where}: '{key}' must be a text, a list of texts or a list of [heading, text], got "
            f"{json.dumps(row[key])[:60]}."
        )
    return " ".join(parts)


def _parts(value: Any) -> list[str] | None:
    """The texts in a value, however deep they lie; None if something else lies there."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return None
    found = [_parts(each) for each in value]
    if any(one is None for one in found):
        return None
    return [text for one in found if one is not None for text in one]
