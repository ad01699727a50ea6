"""Requests from files and from standard input, and notes about what is left unread of them."""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from regard.data.files import lines
from regard.errors import DataError
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import cut_like, is_read_as_trained, rows_like, unread_like


def tell_cut(recipe: Recipe, source: Path, references: Sequence[Path] = ()) -> None:
    """Tell what is left unread of the texts of a file.

    Args:
        recipe: the run's.
        source: the file.
        references: files that were given with it; without, it holds both sides.
    """
    train = recipe.data.train
    if references and any(rows_like(train, source)):
        tell(unread_like(train))
    elif not references and is_read_as_trained(train, source):
        tell(cut_like(train))


def tell(note: str | None) -> None:
    """Print a note on standard error, if there is one."""
    if note is not None:
        print(note, file=sys.stderr, flush=True)


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file or of standard input; an error names a line that is no text."""
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


def _standard_input() -> AbstractContextManager[Iterable[bytes]]:
    """Opened anew where possible: Python cannot end while a thread waits in its own reader."""
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
