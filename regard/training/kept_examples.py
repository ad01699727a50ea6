"""Kept examples: a few validation inputs in the run itself, for machines without its data.

    RUN/examples.json     {"version": 1, "inputs": ["9. Mai 2029", "examples/1/dog.jpg"]}
    RUN/examples/         the pictures among them

Data that a generator makes are made anew anywhere, and nothing is kept of them.
"""

import json
import os
import shutil
from itertools import islice
from pathlib import Path

from regard.data import PICTURE_READERS
from regard.data.atomic_writes import write_text
from regard.data.files import Unreadable, read_json
from regard.errors import DataError
from regard.recipes.data_paths import data_files, examples_of
from regard.recipes.recipe import Recipe

FILE, FOLDER, VERSION = "examples.json", "examples", 1
N_KEPT, N_READ = 8, 50
"""How many inputs are kept, of the first so many rows."""
MAX_CHARACTERS, MAX_PICTURE_BYTES = 2000, 8 << 20
"""Longer texts and larger pictures are not kept."""


def keep_examples(run: Path, recipe: Recipe) -> None:
    """Write some inputs of the validation data into a run, unless it has them or reads no files."""
    choice = recipe.data.valid
    if (run / FILE).exists() or not data_files(choice, run):
        return
    try:
        rows = list(islice(examples_of(choice, "valid", run)(), N_READ))
    except DataError:
        # a run that has read its data goes on without them
        return
    inputs = [one.source if one.source.strip() else one.targets[0] for one in rows]
    if choice.name in PICTURE_READERS:
        kept = [_copied(run, number, Path(each)) for number, each in enumerate(inputs[:N_KEPT], 1)]
        inputs = [address for address in kept if address is not None]
    short = [text for text in inputs if text.strip() and len(text) <= MAX_CHARACTERS]
    said = {"version": VERSION, "inputs": short[:N_KEPT]}
    write_text(run / FILE, json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def kept_examples(run: Path) -> list[str]:
    """The inputs that a run keeps, pictures as paths in the run; none if it has no such file."""
    if not os.path.lexists(run / FILE):
        return []
    try:
        match read_json(run / FILE):
            case {"version": 1, "inputs": [*inputs]} if all(isinstance(one, str) for one in inputs):
                return list(inputs)
        raise Unreadable("does not have version 1 and a list of texts as inputs")
    except Unreadable as error:
        raise DataError(f"'{run / FILE}' {error}. Delete it, or put back a whole copy.") from error


def _copied(run: Path, number: int, picture: Path) -> str | None:
    """The address inside the run of a copy of a picture; None if it cannot be kept."""
    try:
        if picture.stat().st_size > MAX_PICTURE_BYTES:
            return None
        name = f"{FOLDER}/{number}/{picture.name}"
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, run / name)
    except OSError:
        return None
    return name
