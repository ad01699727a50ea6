"""Loads runs and reads requests for the verbs, and prints notes on what is left unread."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from regard.data.files import lines
from regard.errors import DataError
from regard.hardware.threads import use_threads
from regard.interop.engines import engine_named
from regard.recipes.recipe import Recipe
from regard.runs.trained import Trained, load
from regard.tasks.input_format import is_read_as_trained, max_words_note, rows_of_form, unread_note
from regard.tasks.loaded_run import TORCH


def load_for_verb(
    run: Path,
    *others: Path,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    engine: str = TORCH,
) -> Trained:
    """Load a run, or an ensemble, and set torch to its number of threads."""
    chosen = engine_named(engine)
    trained = load(run, *others, device=device, precision=precision, threads=threads, engine=chosen)
    for note in () if trained.engine is None else trained.engine.notes:
        print_note(note)
    used = trained.hardware.threads
    if used is not None:
        use_threads(used.count)
        print_note(f"on {used}" if used.is_reduced else None)
    return trained


def print_unread(recipe: Recipe, source: Path, references: Sequence[Path] = ()) -> None:
    """Print a note on the part of a file that a run does not read; a single file has both sides."""
    train = recipe.data.train
    if references and any(rows_of_form(train, source)):
        print_note(unread_note(train))
    elif not references and is_read_as_trained(train, source):
        print_note(max_words_note(train))


def print_note(note: str | None) -> None:
    """Print a note on standard error, if there is one."""
    if note is not None:
        print(note, file=sys.stderr, flush=True)


def request_lines(name: str) -> Iterator[str]:
    """The lines of a file or of standard input; an error names a line that is not valid text."""
    path = Path(name)
    if name != "-":
        if path.is_dir():
            raise DataError(f"predict: '{name}' is a folder; a file was expected. Give its files.")
        if not path.is_file():
            raise DataError(f"predict: there is no file '{name}'. For a text itself, use --text.")
        yield from lines(path)
        return
    if sys.stdin is None:
        raise DataError("predict: standard input is closed. Give a file, or --text.")
    file: BinaryIO = sys.stdin.buffer
    with suppress(io.UnsupportedOperation):
        # opened anew: Python cannot end while a thread waits in its own reader
        file = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    with file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"predict: standard input, line {number} is not UTF-8 (byte "
                    f"{error.start + 1}). Convert the file, for instance with iconv."
                ) from error
            yield text.removeprefix("\ufeff") if number == 1 else text
