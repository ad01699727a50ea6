"""Readers of captioned pictures: an example's source is a picture's address, its targets captions.

    caption_lines   one JSON object a line: {"image": "dog.jpg", "captions": ["A dog .", …]}
    karpathy        Karpathy's JSON: `images`, each with filename, split and sentences
    flickr8k        name.jpg#0 TAB caption, and a file that lists the names of a split

`pictures` is the folder or the zip that holds the pictures. Lines of one picture that stand one
after another are one example. As with all readers nothing is left out in silence: a picture that
is not there is a DataError with its name and the line. With `normalise`, captions are brought to
the form of that name (normalising.py).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from regard.data.captioned import Captioned, NamesWanted, SplitWanted, captions_in_form, gathered
from regard.data.examples import Example
from regard.data.files import PACKINGS, UNPACKING, Broken, check_is_file
from regard.data.normalisation import check_is_normaliser
from regard.data.regular_files import Unreadable, decoded, parse_json
from regard.data.rows import Row, check_is_text, from_json, parsed, strict
from regard.errors import DataError


@dataclass(frozen=True)
class CaptionLines:
    """One JSON object a line, with the keys image and captions (or caption), and perhaps split."""

    path: Path
    pictures: Path
    split: str | None = None
    """Only pictures of this split, or of several: train+restval. All unless given."""
    normalise: str | None = None

    def __post_init__(self) -> None:
        check_is_normaliser(self.normalise)

    def examples(self) -> Iterator[Example]:
        """Every picture."""
        return captions_in_form(self.normalise, strict(self.rows()))

    def rows(self) -> Iterator[Row]:
        """Every picture, numbered by its first line, the broken ones too."""
        found = parsed(self.path, self._parse)
        return gathered(self.path, found, self.pictures, SplitWanted(self.split))

    def _parse(self, line: str, number: int) -> Captioned:
        where = f"caption_lines: '{self.path}', line {number}"
        row = from_json(line, where)
        captions = _value(where, row, "captions", "caption")
        return Captioned(
            _text(where, "image", _value(where, row, "image")),
            _texts(where, captions if isinstance(captions, list) else [captions]),
            row.get("split"),
        )


@dataclass(frozen=True)
class KarpathyJson:
    """One JSON file whose `images` have filename, split, and sentences with their `raw` texts.

    Where an image has a filepath, as those of COCO do, it is a folder inside `pictures`.
    """

    path: Path
    pictures: Path
    split: str | None = None
    """Only pictures of this split, or of several: train+restval. All unless given."""
    normalise: str | None = None

    def __post_init__(self) -> None:
        check_is_normaliser(self.normalise)

    def examples(self) -> Iterator[Example]:
        """Every picture."""
        return captions_in_form(self.normalise, strict(self.rows()))

    def rows(self) -> Iterator[Row]:
        """Every picture, numbered by its place among the images, the broken ones too."""
        found, wanted = self._images(), SplitWanted(self.split)
        return gathered(self.path, found, self.pictures, wanted, unit="image")

    def _images(self) -> Iterator[tuple[int, Captioned | Broken]]:
        try:
            images = self._read()
        except DataError as error:
            yield 1, Broken("format", self.path, 1, str(error))
            return
        for number, image in enumerate(images, 1):
            try:
                yield number, self._parse(image, number)
            except DataError as error:
                yield number, Broken("format", self.path, number, str(error))

    def _read(self) -> list[Any]:
        check_is_file(self.path)
        try:
            with PACKINGS.get(self.path.suffix, _plain)(self.path) as file:
                whole = parse_json(decoded(file.read()))
        except Unreadable as error:
            raise DataError(f"karpathy: '{self.path}' {error}.") from error
        except UNPACKING as error:
            raise DataError(f"karpathy: '{self.path}' cannot be read: {error}.") from error
        images = whole.get("images") if isinstance(whole, dict) else None
        if not isinstance(images, list):
            raise DataError(f"karpathy: '{self.path}' has no list of images; expected one object.")
        return images

    def _parse(self, image: Any, number: int) -> Captioned:
        where = f"karpathy: '{self.path}', image {number}"
        name = _text(where, "filename", _value(where, image, "filename"))
        folder = _text(where, "filepath", image.get("filepath", ""))
        sentences = _value(where, image, "sentences")
        raw = sentences if isinstance(sentences, list) else [sentences]
        captions = _texts(where, [_value(where, sentence, "raw") for sentence in raw])
        return Captioned(f"{folder}/{name}" if folder else name, captions, image.get("split"))


@dataclass(frozen=True)
class Flickr8kTokens:
    """Flickr8k.token.txt and files like it: name.jpg#0, a tab, and a caption."""

    path: Path
    pictures: Path
    names: Path | None = None
    """A file with the names of one split's pictures, one a line; every picture unless given."""
    normalise: str | None = None

    def __post_init__(self) -> None:
        check_is_normaliser(self.normalise)

    def examples(self) -> Iterator[Example]:
        """Every picture, or every one of those named."""
        return captions_in_form(self.normalise, strict(self.rows()))

    def rows(self) -> Iterator[Row]:
        """Every picture, numbered by its first line, the broken ones too."""
        found = parsed(self.path, self._parse)
        return gathered(self.path, found, self.pictures, NamesWanted(self.names))

    def _parse(self, line: str, number: int) -> Captioned:
        head, tab, caption = line.partition("\t")
        name, _, place = head.rpartition("#")
        if not (tab and name and place.isdigit()):
            raise DataError(
                f"flickr8k: '{self.path}', line {number} begins with {line[:40]!r}; expected "
                "name.jpg#0 TAB caption."
            )
        return Captioned(name, (caption,))


def _plain(path: Path) -> BufferedIOBase:
    return path.open("rb")


def _value(where: str, row: Any, *keys: str) -> Any:
    """What stands under the first of these keys that is there."""
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: expected an object with '{keys[0]}', got {json.dumps(row)[:40]}."
        )
    for key in keys:
        if key in row:
            return row[key]
    raise DataError(f"{where} has no '{keys[0]}'; it has {', '.join(row) or 'no keys'}.")


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: '{key}' must be a text, got {json.dumps(value)[:40]}.")
    check_is_text(where, value)
    return value


def _texts(where: str, values: list[Any]) -> tuple[str, ...]:
    if not values:
        raise DataError(f"{where} has no caption; a picture needs at least one.")
    return tuple(_text(where, "caption", value) for value in values)
