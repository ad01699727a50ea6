"""What is asked of a run: the lines of files and of standard input, and what the caller typed.

Of JSON objects, a run that learned from such is asked what their keys say. A run that captions is
asked pictures.
"""

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import lines
from regard.errors import DataError
from regard.recipes.recipe import Recipe
from regard.runs.trained import Prediction, Trained
from regard.tasks.input_format import (
    BEFORE_TAB,
    addresses_like,
    cut_like,
    holds_columns,
    is_read_as_trained,
    rows_like,
    sources_like,
    text_like,
    unread_like,
)

PICTURES = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".bmp", ".tif", ".tiff", ".ppm"}
)
"""How the pictures of a folder end."""


def _texts_of(trained: Trained, name: str) -> Iterator[str]:
    """The lines of a file; of a file that holds references what the run would read of each."""
    recipe, path = trained.loaded.recipe, Path(name)
    found = None if name == "-" else sources_like(recipe, path)
    if found is not None:
        tell_cut(recipe, path)
        yield from found
        return
    told: set[str | None] = {None}
    for number, line in enumerate(lines_of(name), 1):
        has_columns = name != "-" and holds_columns(path) and "\t" in line
        given = line.partition("\t")[0] if has_columns else line
        text = text_like(recipe.data.train, given, f"{_called(name)}, line {number}")
        unread = BEFORE_TAB if has_columns else unread_like(recipe.data.train)
        if text is not line and unread not in told:
            told.add(unread)
            _tell(unread)
        yield text


def typed_text(recipe: Recipe, text: str, where: str) -> str:
    """What is asked by what the caller typed, which may be a JSON object."""
    found = text_like(recipe.data.train, text, where)
    if found is not text:
        _tell(unread_like(recipe.data.train))
    return found


def tell_cut(recipe: Recipe, source: Path, references: Sequence[Path] = ()) -> None:
    """Nothing of the texts of a file is left unread in silence.

    Args:
        recipe: the run's.
        source: the file.
        references: files that were given with it; without, it holds both sides.
    """
    train = recipe.data.train
    if references and any(rows_like(train, source)):
        _tell(unread_like(train))
    elif not references and is_read_as_trained(train, source):
        _tell(cut_like(train))


def _tell(note: str | None) -> None:
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


def _addresses_of(trained: Trained, name: str) -> Iterator[str]:
    """The picture itself, those of a folder by their names, or the addresses on standard input.

    A file of captions, such as the run learned from, stands for the pictures that it names.
    """
    path = Path(name)
    if name == "-":
        yield from lines_of(name)
    elif path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix.lower() in PICTURES)
        if not found:
            raise DataError(f"predict: '{name}' holds no picture ({', '.join(sorted(PICTURES))}).")
        yield from map(str, found)
    elif path.is_file() and path.suffix.lower() not in PICTURES:
        yield from addresses_like(trained.loaded.recipe, path, trained.path) or [name]
    else:
        yield name


@dataclass(frozen=True)
class Asked:
    """What is asked of a kind of run, and when an answer is none."""

    lines: Callable[[Trained, str], Iterator[str]]
    """A run, and a file that the caller names → what is asked."""
    typed: Callable[[Recipe, str], str]
    """A run's recipe, and what the caller typed → what is asked."""
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
