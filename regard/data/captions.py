"""Readers of captioned pictures: an example's source is a picture's address, its targets captions.

    caption_lines   one JSON object a line: {"image": "dog.jpg", "captions": ["A dog .", …]}
    karpathy        Karpathy's JSON: `images`, each with filename, split and sentences
    flickr8k        name.jpg#0 TAB caption, and a file that lists the names of a split

`pictures` is the folder or the zip that holds the pictures. Consecutive lines of one picture are
one example. As with all readers nothing is skipped silently: a picture that is missing, or that
comes back after others, is a DataError with its name and the line. With `normalise`, captions are
brought to the form of that name (normalisation.py).
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from regard.data.examples import (
    Example,
    FileReader,
    FileRow,
    from_json,
    parsed,
    text_of,
    value_at,
)
from regard.data.files import (
    UNPACKING,
    Broken,
    Unreadable,
    check_is_file,
    decoded,
    lines,
    opened,
    parse_json,
    tolerant_lines,
)
from regard.data.pictures import check_is_there
from regard.errors import DataError


class _Captioned(NamedTuple):
    """One line: a picture's name, its captions, and the label by which it is chosen."""

    name: str
    captions: tuple[str, ...]
    label: Any
    """Its split, if it has one; its name where a file lists the names of a split."""


class _CaptionReader(FileReader):
    """What the readers share: they give one row for each picture that is wanted."""

    path: Path
    pictures: Path
    split: str | None = None
    has_texts = False
    unit: ClassVar[str] = "line"
    """The word for a numbered place in messages, such as "line"."""

    @abstractmethod
    def _found(self) -> Iterator[tuple[int, _Captioned | Broken]]:
        """The content of each line, with its number."""

    def _wanted(self) -> Mapping[str, int] | None:
        """The labels of the pictures that are wanted, with the line of each; None for all."""
        return None if self.split is None else dict.fromkeys(filter(None, self.split.split("+")), 1)

    def _complaint(self, absent: Mapping[str, int], met: Iterable[str]) -> str:
        """The error for wanted labels that no picture has, once all lines are read."""
        known = ", ".join(met) or "no picture at all"
        return f"there is no picture of split '{next(iter(absent))}', only of {known}."

    def rows(self) -> Iterator[FileRow]:
        """Every picture, numbered by its first line, the broken ones too."""
        firsts: dict[str, int] = {}
        wanted = self._wanted()
        met: dict[str, None] = {}
        for number, group in _together(self._chosen(wanted, met)):
            if isinstance(group, Broken):
                yield FileRow(self.path, number, (group,))
                continue
            address = f"{self.pictures}/{group.name}"
            try:
                first = firsts.setdefault(group.name, number)
                if first != number:
                    raise DataError(
                        f"'{group.name}' stood in {self.unit} {first} already. Put the lines of a "
                        "picture together."
                    )
                check_is_there(address)
            except DataError as error:
                yield FileRow(self.path, number, (self._refused(number, error),))
            else:
                yield FileRow(self.path, number, Example(address, group.captions))
        if absent := {label: line for label, line in (wanted or {}).items() if label not in met}:
            complaint = self._complaint(absent, met)
            yield FileRow.refused(self.path, 1, f"captions: '{self.path}': {complaint}")

    def _chosen(
        self, wanted: Mapping[str, int] | None, met: dict[str, None]
    ) -> Iterator[tuple[int, _Captioned | Broken]]:
        """The lines that are wanted, and those that cannot be read; `met` collects labels."""
        for number, line in self._found():
            if isinstance(line, Broken) or wanted is None:
                yield number, line
            elif not isinstance(line.label, str):
                said = (
                    f"'{line.name}' is in no split, but split = '{self.split}' was asked for. Give "
                    "every picture one, or ask for none."
                )
                yield number, self._refused(number, said)
            else:
                met[line.label] = None
                if line.label in wanted:
                    yield number, line

    def _refused(self, number: int, why: DataError | str) -> Broken:
        said = f"captions: '{self.path}', {self.unit} {number}: {why}"
        return Broken("format", self.path, number, said)


@dataclass(frozen=True)
class CaptionLines(_CaptionReader):
    """One JSON object a line, with the keys image and captions (or caption), and perhaps split."""

    path: Path
    """The file, a JSON object a line."""
    pictures: Path
    """The folder of the pictures."""
    split: str | None = None
    """Only pictures of this split, or of several: train+restval. All unless given."""

    def _found(self) -> Iterator[tuple[int, _Captioned | Broken]]:
        return parsed(self.path, enumerate(tolerant_lines(self.path), 1), self._parse)

    def _parse(self, line: str, number: int) -> _Captioned:
        where = f"caption_lines: '{self.path}', line {number}"
        row = from_json(line, where)
        captions = _value(where, row, "captions", "caption")
        return _Captioned(
            text_of(where, "image", _value(where, row, "image")),
            _texts(where, captions if isinstance(captions, list) else [captions]),
            row.get("split"),
        )


@dataclass(frozen=True)
class KarpathyJson(_CaptionReader):
    """One JSON file whose `images` have filename, split, and sentences with their `raw` texts.

    Where an image has a filepath, as those of COCO do, it is a folder inside `pictures`.
    """

    path: Path
    """The JSON file."""
    pictures: Path
    """The folder of the pictures."""
    split: str | None = None
    """Only pictures of this split, or of several: train+restval. All unless given."""
    unit = "image"

    def _found(self) -> Iterator[tuple[int, _Captioned | Broken]]:
        try:
            images = self._read()
        except DataError as error:
            yield 1, Broken("format", self.path, 1, str(error))
            return
        yield from parsed(self.path, enumerate(images, 1), self._parse)

    def _read(self) -> list[Any]:
        check_is_file(self.path)
        try:
            with opened(self.path) as file:
                whole = parse_json(decoded(file.read()))
        except Unreadable as error:
            raise DataError(f"karpathy: '{self.path}' {error}.") from error
        except UNPACKING as error:
            raise DataError(f"karpathy: '{self.path}' cannot be read: {error}.") from error
        images = whole.get("images") if isinstance(whole, dict) else None
        if not isinstance(images, list):
            raise DataError(f"karpathy: '{self.path}' has no list of images; expected one object.")
        return images

    def _parse(self, image: Any, number: int) -> _Captioned:
        where = f"karpathy: '{self.path}', image {number}"
        name = text_of(where, "filename", _value(where, image, "filename"))
        folder = text_of(where, "filepath", image.get("filepath", ""))
        sentences = _value(where, image, "sentences")
        raw = sentences if isinstance(sentences, list) else [sentences]
        captions = _texts(where, [_value(where, sentence, "raw") for sentence in raw])
        return _Captioned(f"{folder}/{name}" if folder else name, captions, image.get("split"))


@dataclass(frozen=True)
class Flickr8kTokens(_CaptionReader):
    """Flickr8k.token.txt and files like it: name.jpg#0, a tab, and a caption."""

    path: Path
    """The file of captions."""
    pictures: Path
    """The folder of the pictures."""
    names: Path | None = None
    """A file with the names of one split's pictures, one a line; every picture unless given."""

    def _wanted(self) -> Mapping[str, int] | None:
        if self.names is None:
            return None
        named = enumerate(map(str.strip, lines(self.names)), 1)
        return {name: number for number, name in named if name}

    def _complaint(self, absent: Mapping[str, int], met: Iterable[str]) -> str:
        name, number = next(iter(absent.items()))
        return (
            f"'{name}' in line {number} of '{self.names}' has no caption ({len(absent)} such "
            "names). Take it off that list, or caption it."
        )

    def _found(self) -> Iterator[tuple[int, _Captioned | Broken]]:
        return parsed(self.path, enumerate(tolerant_lines(self.path), 1), self._parse)

    def _parse(self, line: str, number: int) -> _Captioned:
        head, tab, caption = line.partition("\t")
        name, _, place = head.rpartition("#")
        if not (tab and name and place.isdigit()):
            raise DataError(
                f"flickr8k: '{self.path}', line {number} begins with {line[:40]!r}; expected "
                "name.jpg#0 TAB caption."
            )
        return _Captioned(name, (caption,), name)


def _together(
    chosen: Iterable[tuple[int, _Captioned | Broken]],
) -> Iterator[tuple[int, _Captioned | Broken]]:
    """Consecutive lines of one picture joined into one, under the number of the first."""
    for _, group in groupby(chosen, lambda one: getattr(one[1], "name", one[0])):
        (number, first), *others = group
        if isinstance(first, Broken):
            yield number, first
            continue
        more = [line.captions for _, line in others if isinstance(line, _Captioned)]
        yield number, first._replace(captions=sum(more, first.captions))


def _value(where: str, row: Any, *keys: str) -> Any:
    """The value of the first of these keys that the object has."""
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: expected an object with '{keys[0]}', got {json.dumps(row)[:40]}."
        )
    return value_at(where, row, next((key for key in keys if key in row), keys[0]))


def _texts(where: str, values: list[Any]) -> tuple[str, ...]:
    if not values:
        raise DataError(f"{where} has no caption; a picture needs at least one.")
    return tuple(text_of(where, "caption", value) for value in values)
