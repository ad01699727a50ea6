"""What one brings oneself, read as a run's data are: JSON lines with their keys, whole files."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.choices import Choice
from regard.data import Example
from regard.data.documents import Documents
from regard.data.readers import ALONE, JsonLines, Reader, unpacked
from regard.data.running_text import RunningText
from regard.data.treebanks import Treebank
from regard.errors import DataError
from regard.training.recipes import Recipe
from regard.training.sections import Mistakes, read_section


@runtime_checkable
class ReadsObjects(Protocol):
    """A reader of JSON objects, of which each says what is read, and most what is wanted."""

    def examples(self) -> Iterator[Example]:
        """Every line, with what is wanted."""

    def sources(self) -> Iterator[str]:
        """What is read of every line."""

    def source_of(self, line: str, where: str) -> str:
        """What is read of one object, wherever it comes from."""


OBJECTS: Mapping[str, type[ReadsObjects]] = {"jsonl": JsonLines, "documents": Documents}
"""Readers of JSON lines, as recipes name them."""


WHOLE: Mapping[str, type[Reader]] = {"conllu": Treebank, "running_text": RunningText}
"""Readers of files that hold all there is to know, as recipes name them."""

BEGINS = re.compile(r"""\ufeff?\s*\{\s*(?:["'}]|$)""")
"""How a line begins that is a JSON object, or was meant to be one; "{name} is here" does not."""


def holds_objects(path: Path) -> bool:
    """Whether the name says that each line is a JSON object; it may be packed."""
    return unpacked(path).endswith(".jsonl")


def holds_treebank(path: Path) -> bool:
    """Whether the name says that sentences stand there word by word; it may be packed."""
    return unpacked(path).endswith(".conllu")


def reader_like(train: Choice, path: Path) -> ReadsObjects | None:
    """The reader of the training data with another file; None if that was no JSON.

    Keys are those of the recipe, and documents are cut where it says. Texts are left as they are:
    whoever asks the run brings them to the form that it learned from.
    """
    if train.name not in OBJECTS:
        return None
    kept = {key: value for key, value in train.settings.items() if key != "normalise"}
    settings = {**kept, "path": str(path)}
    return read_section(OBJECTS[train.name], settings, "data.train", Mistakes())


def whole_like(recipe: Recipe, path: Path) -> Reader | None:
    """The reader of the run's data with another file, where one such file holds both sides.

    Settings are those of the validation data, which are to be judged as well, where they are read
    by the same reader as the training data.
    """
    train, valid = recipe.data.train, recipe.data.valid
    settings = valid.settings if valid.name == train.name else train.settings
    ending = unpacked(path).rpartition(".")[2]
    is_such = ending == train.name if train.name in ALONE else ending not in ALONE
    if train.name not in WHOLE or not is_such:
        return None
    return read_section(WHOLE[train.name], {**settings, "path": str(path)}, "data", Mistakes())


def sources_like(recipe: Recipe, path: Path) -> Iterator[str]:
    """What a run reads of each line of a file of JSON objects, or each sentence of a treebank."""
    if holds_treebank(path):
        like = whole_like(recipe, path)
        return (like if isinstance(like, Treebank) else Treebank(path)).sources()
    reader = reader_like(recipe.data.train, path)
    if reader is None:
        raise DataError(
            f"predict: '{path}' holds JSON objects, but the run learned from "
            f"'{recipe.data.train.name}', and nobody knows which keys to read. Give a text a line."
        )
    return reader.sources()


def cut_like(train: Choice) -> str | None:
    """What is left unread of JSON objects, in words; None if nothing is."""
    most = train.settings.get("max_words")
    if train.name not in OBJECTS or most is None:
        return None
    return f"of each JSON object the first {most:,} words are read, as in training (max_words)"


def text_like(train: Choice, line: str, where: str) -> str:
    """What a run reads of a line that came in no file of JSON objects.

    A run that learned from JSON objects never reads one as text: a line that begins like one is
    one, and its keys say what is read. All other lines, and those of all other runs, are texts.

    Args:
        train: the training data of the run.
        line: what somebody gave.
        where: that was, for errors.
    """
    reader = reader_like(train, Path()) if BEGINS.match(line) else None
    if reader is None:
        return line
    try:
        return reader.source_of(line.removeprefix("\ufeff"), f"{train.name}: {where}")
    except DataError as error:
        raise DataError(
            f"{error} The run learned from JSON objects: give such ones, or texts that do not "
            "begin like one."
        ) from error
