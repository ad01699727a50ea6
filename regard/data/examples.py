"""Examples, and the rows of files that hold them, including rows that cannot be read."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.choices import find
from regard.data.files import Broken, Unreadable, lines, parse_json, tolerant_lines
from regard.data.normalisation import NORMALISERS
from regard.errors import DataError, SettingError

T = TypeVar("T")

_BEGINS = re.compile(r"""\ufeff?\s*\{\s*(?:["'}]|$)""")
"""Matches the start of a JSON object, even a broken one; "{name} is here" does not match."""

COLUMN_NAMES = frozenset(
    (
        *("source", "target", "src", "tgt", "trg", "input", "output", "text", "label", "labels"),
        *("sentence", "translation", "en", "de", "fr", "es", "it", "ru", "zh", "ja", "english"),
        *("german", "french", "spanish", "italian", "russian", "chinese", "japanese"),
    )
)
"""Usual names of columns: a first line of nothing else is no example."""


def names_columns(source: str, target: str) -> bool:
    """Whether a pair is a line of column names.

    >>> names_columns("English", "German"), names_columns("English tea", "German")
    (True, False)
    """
    names = {source.strip().lower(), target.strip().lower()}
    return names <= COLUMN_NAMES and len(names) == 2


@dataclass(frozen=True)
class Example:
    """One source text with its target texts: every reader and generator gives these."""

    source: str
    targets: tuple[str, ...]
    """One target, or several references for the same source."""
    links: tuple[tuple[int, int], ...] | None = None
    """True alignment of the first target, where it is known: (source, target) character pairs."""
    group: str | None = None
    """The group for which scores are also reported separately, such as its language."""

    def __post_init__(self) -> None:
        if not self.targets:
            raise DataError(f"example: '{self.source[:40]}' has no target; give at least one.")


@dataclass(frozen=True)
class FileRow:
    """One place in the files: its example, or the reason why it has none."""

    path: Path
    number: int
    found: Example | tuple[Broken, ...]

    @classmethod
    def refused(cls, path: Path, number: int, why: str) -> "FileRow":
        """A place that is not of the expected form."""
        return cls(path, number, (Broken("format", path, number, why),))


def held_out_share(share: float = 0.05) -> float:
    """A share of the examples that may be held out from training, at most half."""
    if not 0.0 <= share <= 0.5:
        raise SettingError(
            f"held_out: the share must lie between 0 and 0.5, got {share:g}; it is the part of the "
            "examples that training does not learn from. Take 0.05 for instance."
        )
    return share


@dataclass(frozen=True, kw_only=True)
class ExampleReader(ABC):
    """Gives all examples, from the first to the last, at every call."""

    normalise: str | None = None
    """The normaliser that brings the texts to one form, if one is wanted."""
    held_out: float = 0.0
    """The share of the examples that training leaves to validation (held_out.py)."""

    def __post_init__(self) -> None:
        if self.normalise is not None:
            find(self.normalise, NORMALISERS)
        held_out_share(self.held_out)

    @abstractmethod
    def examples(self) -> Iterator[Example]:
        """Read from the start."""


class FileReader(ExampleReader):
    """A reader of files, which can also continue after a broken line."""

    has_texts: ClassVar[bool] = True
    """Whether sources are texts, and not addresses of pictures."""

    @abstractmethod
    def rows(self) -> Iterator[FileRow]:
        """Every place of the files, the broken ones too."""

    def examples(self) -> Iterator[Example]:
        """Every example, up to the first place that cannot be read, which is an error."""
        return in_form(self.normalise, strict(self.rows()), has_texts=self.has_texts)


class LineReader(FileReader):
    """A reader whose every line is an example."""

    path: Path
    who: ClassVar[str]
    """The reader's name in errors."""

    @abstractmethod
    def example_of(self, line: str, where: str) -> Example:
        """The example of a line; `where` begins the sentence of an error."""

    @abstractmethod
    def source_of(self, line: str, where: str) -> str:
        """The source of a line, also of one typed by a user; it needs no target."""

    def rows(self) -> Iterator[FileRow]:
        """Every line, the broken ones too."""
        numbered = enumerate(tolerant_lines(self.path), 1)
        for number, found in parsed(self.path, numbered, self._parse):
            yield FileRow(self.path, number, (found,) if isinstance(found, Broken) else found)

    def sources(self) -> Iterator[str]:
        """The source of every line, unchanged; an empty line gives an empty text."""
        for number, line in enumerate(lines(self.path), 1):
            yield self.source_of(line, self._where(number)) if line.strip() else ""

    def is_row(self, line: str) -> bool:
        """Whether a line that may also be a plain text is a JSON object, or was meant to be one."""
        return _BEGINS.match(line) is not None

    def _parse(self, line: str, number: int) -> Example:
        return self.example_of(line, self._where(number))

    def _where(self, number: int) -> str:
        return f"{self.who}: '{self.path}', line {number}"


def parsed(
    path: Path, numbered: Iterable[tuple[int, Any]], parse: Callable[[Any, int], T]
) -> Iterator[tuple[int, T | Broken]]:
    """The parsed content of each line or object, with its number; `Broken` if it does not parse."""
    for number, line in numbered:
        if isinstance(line, Broken):
            yield number, line
            continue
        try:
            yield number, parse(line, number)
        except DataError as error:
            yield number, Broken("format", path, number, str(error))


def strict(rows: Iterable[FileRow]) -> Iterator[Example]:
    """The examples, up to the first place that cannot be read, which is an error."""
    for row in rows:
        if isinstance(row.found, tuple):
            raise DataError(row.found[0].message)
        yield row.found


def in_form(
    name: str | None, examples: Iterable[Example], *, has_texts: bool = True
) -> Iterator[Example]:
    """Examples brought to the form of this name; unchanged without one.

    Targets are brought to that form, and sources if they are texts.
    """
    if name is None:
        return iter(examples)
    form = find(name, NORMALISERS)

    def formed(example: Example) -> Example:
        targets = tuple(form(target).text for target in example.targets)
        if not has_texts:
            return replace(example, targets=targets)
        # an alignment of characters is void once the text is normalised
        return replace(example, source=form(example.source).text, targets=targets, links=None)

    return map(formed, examples)


def from_json(line: str, where: str) -> Any:
    """The value of a line of JSON."""
    if not line.strip():
        raise DataError(f"{where} is empty; expected one object.")
    try:
        return parse_json(line)
    except Unreadable as error:
        raise DataError(f"{where} {error}; expected one object.") from error


def value_at(where: str, row: Any, key: str, *, hint: str = "") -> Any:
    """The value of a key; a missing key is an error that names the keys there are."""
    if isinstance(row, dict) and key in row:
        return row[key]
    found = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
    raise DataError(f"{where} has no '{key}'; it has {found or 'no keys'}.{hint}")


def text_of(where: str, key: str, value: Any, *, hint: str = "") -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise DataError(f"{where}: '{key}' must be a text, got {as_json(value)[:40]}.{hint}")
    check_is_text(where, value)
    return value


def texts_of(where: str, key: str, value: Any) -> tuple[str, ...]:
    """A value that must be a text or a list of texts."""
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(one, str) for one in found):
        raise DataError(
            f"{where}: '{key}' must be a text or a list of texts, got {as_json(value)[:60]}."
        )
    for one in found:
        check_is_text(where, one)
    return tuple(found)


def as_json(value: Any) -> str:
    """A value as an error shows it."""
    return json.dumps(value, default=repr)


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
