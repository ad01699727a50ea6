"""Documents: one JSON object a line; some of its parts are the source, and one is the target.

    {"title": …, "abstract": …, "sections": [[heading, text], …]}     papers and their abstracts
    {"title": …, "source": [sentence, …], "target": [summary, …]}     SciTLDR

A part may be a text, a list of texts, or a list of headings with texts; runs of white space become
one space. A document is cut only if `max_words` is given, as in Liu et al. 2018.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.examples import (
    Example,
    LineReader,
    as_json,
    check_is_text,
    from_json,
    texts_of,
    value_at,
)
from regard.errors import DataError, SettingError

T = TypeVar("T")


@dataclass(frozen=True)
class Documents(LineReader):
    """Documents with a text about each, such as its abstract; several texts are references."""

    path: Path
    """The file, a JSON object a line."""
    source: tuple[str, ...] = ("title", "sections")
    """The keys of the source's parts, in this order."""
    target: str = "abstract"
    """The key of the target."""
    max_words: int | None = None
    """How many words are read of each document; all unless given."""
    who = "documents"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source:
            raise SettingError("documents: source names no key. Give at least one.")
        if self.max_words is not None and self.max_words < 1:
            raise SettingError(f"documents: max_words must be at least 1, got {self.max_words}.")
        if self.normalise is not None:
            raise SettingError("documents: normalise is for pairs of sentences. Leave it out.")

    def source_of(self, line: str, where: str) -> str:
        """The source of a document."""
        return _taken(line, where, self._read)

    def example_of(self, line: str, where: str) -> Example:
        """The source and the target of a document."""
        return _taken(line, where, self._example)

    def _read(self, where: str, row: dict[str, Any]) -> str:
        words = " ".join(_text(where, row, key) for key in self.source).split()
        check_is_text(where, " ".join(words))
        return " ".join(words[: self.max_words])

    def _example(self, where: str, row: dict[str, Any]) -> Example:
        text, answer = self._read(where, row), value_at(where, row, self.target)
        targets = [" ".join(one.split()) for one in texts_of(where, self.target, answer)]
        if not all(targets):
            raise DataError(
                f"{where}: '{self.target}' must be a text or a list of texts that are not empty, "
                f"got {as_json(answer)[:60]}."
            )
        return Example(text, tuple(targets))


def _taken(line: str, where: str, take: Callable[[str, dict[str, Any]], T]) -> T:
    """The result of `take` on the object that a line holds."""
    row = from_json(line, where)
    if not isinstance(row, dict):
        raise DataError(f"{where} must be one object, got {type(row).__name__}.")
    try:
        return take(where, row)
    except RecursionError as error:
        raise DataError(
            f"{where} is nested too deeply; expected texts and short lists of them."
        ) from error


def _text(where: str, row: dict[str, Any], key: str) -> str:
    """A part of a document as one text."""
    parts = _parts(value_at(where, row, key))
    if parts is None:
        raise DataError(
            f"{where}: '{key}' must be a text, a list of texts or a list of [heading, text], got "
            f"{as_json(row[key])[:60]}."
        )
    return " ".join(parts)


def _parts(value: Any) -> list[str] | None:
    """The texts in a value, at any depth of lists; None if it holds anything else."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return None
    found = [_parts(each) for each in value]
    if any(one is None for one in found):
        return None
    return [text for one in found if one is not None for text in one]
