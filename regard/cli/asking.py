"""What is asked of a run: the lines of files and of standard input, and what somebody typed.

Of JSON objects, a run that learned from such is asked what their keys say. A run that captions is
asked pictures.
"""

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import lines
from regard.errors import DataError
from regard.training.like_training import (
    cut_like,
    holds_objects,
    holds_treebank,
    sources_like,
    text_like,
)
from regard.training.recipes import Recipe
from regard.training.trained import Prediction

PICTURES = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".bmp", ".tif", ".tiff", ".ppm"}
)
"""How the pictures of a folder end."""


def _texts_of(recipe: Recipe, name: str) -> Iterator[str]:
    """The lines of a file; of JSON objects what the run would read of each."""
    if name != "-" and (holds_objects(Path(name)) or holds_treebank(Path(name))):
        if holds_objects(Path(name)):
            tell_cut(recipe)
        yield from sources_like(recipe, Path(name))
        return
    is_told = False
    for number, line in enumerate(lines_of(name), 1):
        text = text_like(recipe.data.train, line, f"{_called(name)}, line {number}")
        if text is not line and not is_told:
            tell_cut(recipe)
            is_told = True
        yield text


def typed_text(recipe: Recipe, text: str, where: str) -> str:
    """What is asked by what somebody typed, which may be a JSON object."""
    found = text_like(recipe.data.train, text, where)
    if found is not text:
        tell_cut(recipe)
    return found


def tell_cut(recipe: Recipe) -> None:
    """Nothing of a JSON object is left unread in silence."""
    note = cut_like(recipe.data.train)
    if note is not None:
        print(note, file=sys.stderr, flush=True)


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file, or an error that says which one is no text."""
    path = Path(name)
    if name != "-" and path.is_dir():
        raise DataError(f"predict: '{name}' is a folder; a file was expected. Give its files.")
    if name != "-" and not path.is_file():
        raise DataError(f"predict: there is no file '{name}'. For a text itself, use --text.")
    if name == "-" and sys.stdin is None:
        raise DataError("predict: standard input is closed. Give a file, or --text.")
    if name != "-":
        yield from lines(path)
        return
    with _standard_input() as file:
        yield from _decoded(file)


def _called(name: str) -> str:
    return "standard input" if name == "-" else name


def _addresses_of(_: Recipe, name: str) -> Iterator[str]:
    """The picture itself, those of a folder by their names, or the addresses on standard input."""
    path = Path(name)
    if name == "-":
        yield from lines_of(name)
    elif path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix.lower() in PICTURES)
        if not found:
            raise DataError(f"predict: '{name}' holds no picture ({', '.join(sorted(PICTURES))}).")
        yield from map(str, found)
    else:
        yield name


@dataclass(frozen=True)
class Asked:
    """What is asked of a kind of run, and when an answer is none."""

    lines: Callable[[Recipe, str], Iterator[str]]
    """A run's recipe, and a file that somebody named → what is asked."""
    typed: Callable[[Recipe, str], str]
    """The same of what somebody typed."""
    has_failed: Callable[[Prediction], bool]


ASKED: Mapping[str, Asked] = {
    "texts": Asked(
        _texts_of, lambda recipe, text: typed_text(recipe, text, "--text"), lambda said: False
    ),
    "pictures": Asked(
        _addresses_of, lambda _, address: address, lambda said: math.isnan(said.score)
    ),
}
"""By what `Recipe.source_kind` says."""


def _standard_input() -> AbstractContextManager[Iterable[bytes]]:
    """Opened anew where it can be: Python cannot end while somebody waits for a line of its own."""
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:
        return sys.stdin.buffer


def _decoded(given: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(given, 1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
            yield text.removeprefix("\ufeff") if number == 1 else text
        except UnicodeDecodeError as error:
            raise DataError(
                f"predict: standard input, line {number} is not UTF-8 (byte {error.start + 1}). "
                "Convert the file, for instance with iconv."
            ) from error
