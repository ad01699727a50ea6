"""Texts that are not the run's own, read as its data were.

    .tsv        source TAB reference [TAB reference ...]
    .jsonl      JSON objects, by the keys that the run learned from
    .conllu     a treebank
    others      what the run learned from; to be answered, a text a line

The end of its name says which form a file has; it may be packed. The run's recipe says how a file
of the form that the run learned from is read: by which keys, cut where, with which pictures.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from regard.choices import Choice
from regard.data import Example
from regard.data.documents import Documents
from regard.data.files import lines
from regard.data.readers import (
    ALONE,
    PICTURE_READERS,
    JsonLines,
    Reader,
    TabSeparated,
    unpacked,
)
from regard.data.running_text import RunningText
from regard.data.treebanks import Treebank
from regard.errors import DataError
from regard.recipes.data_paths import located
from regard.recipes.recipe import Recipe
from regard.recipes.sections import Mistakes, read_section


@runtime_checkable
class ReadsLines(Protocol):
    """A reader to which each line says what is read, and most say what is wanted."""

    def examples(self) -> Iterator[Example]:
        """Every line, with what is wanted."""

    def is_row(self, line: str) -> bool:
        """Whether a line that may also be a plain text has this reader's form."""

    def source_of(self, line: str, where: str) -> str:
        """What is read of one line, wherever it comes from."""


OBJECTS: Mapping[str, type[JsonLines | Documents]] = {
    "jsonl": JsonLines,
    "documents": Documents,
    "shards": JsonLines,
    "huggingface": JsonLines,
}
"""How a run reads a .jsonl file, by what it learned from; the keys are those of the recipe."""

LINES: Mapping[str, type[ReadsLines]] = {
    "tsv": TabSeparated,
    "jsonl": JsonLines,
    "documents": Documents,
}
"""Readers that take a file line by line, as recipes name them."""

WHOLE: Mapping[str, type[Reader]] = {
    "conllu": Treebank,
    "running_text": RunningText,
    **PICTURE_READERS,
}
"""Readers of files whose lines belong together, as recipes name them."""

ENDINGS: Mapping[str, str] = {
    "tsv": "tsv",
    "jsonl": "jsonl",
    "documents": "jsonl",
    "caption_lines": "jsonl",
    "conllu": "conllu",
}
"""How a file of a reader's form ends, beside the ending that the run's own file has."""

TSV = Choice("tsv", {"path": ""})

BEFORE_TAB = "of each line the text before the first tab is read; references follow it"
"""What is told where references come with texts that are to be answered."""


def holds_objects(path: Path) -> bool:
    """Whether the name says that each line is a JSON object; it may be packed."""
    return _ending(path) == "jsonl"


def holds_columns(path: Path) -> bool:
    """Whether the name says that references stand behind tabs; it may be packed."""
    return _ending(path) == "tsv"


def _ending(path: Path) -> str:
    return unpacked(path).rpartition(".")[2]


def has_run_form(train: Choice, path: Path) -> bool:
    """Whether the name says that a file has the form that a run learned from."""
    own = train.settings.get("path")
    known = {ENDINGS.get(train.name), None if own is None else _ending(Path(own))}
    return train.name in {**LINES, **WHOLE} and _ending(path) in known


def is_read_as_trained(train: Choice, path: Path) -> bool:
    """Whether a file that comes alone with both sides is read by the run's own reader.

    A file whose ending says nothing is taken for one of the run's form.
    """
    is_file = train.name in LINES or train.name in WHOLE.keys() - PICTURE_READERS.keys()
    return has_run_form(train, path) or (is_file and _ending(path) not in ALONE)


def holds_both_sides(train: Choice | None, path: Path) -> str | None:
    """What a file holds beside texts that are asked, in words; None if it holds one side alone.

    Args:
        train: the training data of the run, if there is one.
        path: a file.
    """
    if holds_objects(path):
        return "JSON objects"
    if _ending(path) == "conllu":
        return "a treebank"
    has_columns = holds_columns(path) or (train is not None and train.name == "tsv")
    return "references behind tabs" if has_columns and has_rows(TSV, path) else None


def has_rows(train: Choice | None, path: Path) -> bool:
    """Whether all lines of a file but blank ones have the form that a run learned from.

    The name of the file says nothing; a plain text may have a line that looks so.
    """
    found = rows_like(train, path)
    return next(found, False) and all(found)


def rows_like(train: Choice | None, path: Path) -> Iterator[bool]:
    """Whether each line of a file that is not blank has the form that a run learned from."""
    reader = None if train is None else _lines_like(train, path)
    if reader is not None:
        yield from (reader.is_row(line) for line in lines(path) if line.strip())


def reader_like(recipe: Recipe, path: Path, run: Path | None = None) -> Reader | None:
    """The reader of the run's data with a file that holds both sides; None if it has another form.

    Texts are left as they are: the caller brings them to the form that the run learned from.

    Args:
        recipe: the run's.
        path: the file.
        run: its directory, from which pictures are found that the file names.
    """
    train = recipe.data.train
    if is_read_as_trained(train, path):
        return _lines_like(train, path) or _whole_like(recipe, path, run)
    return _objects_like(train, path) if holds_objects(path) else None


def _objects_like(train: Choice, path: Path) -> JsonLines | Documents:
    """The reader of a file of JSON objects; of a run that knows no keys, by its own."""
    return _made(OBJECTS.get(train.name, JsonLines), _keys(train), path)


def _keys(train: Choice) -> Mapping[str, Any]:
    return train.settings if train.name in OBJECTS else {}


def _lines_like(train: Choice, path: Path) -> ReadsLines | None:
    return _made(LINES[train.name], train.settings, path) if train.name in LINES else None


def _whole_like(recipe: Recipe, path: Path, run: Path | None) -> Reader:
    """The reader of the validation data with another file, where training data have it too.

    Texts for validation are to be judged, as the file's are; those of training may overlap.
    """
    train, valid = recipe.data.train, recipe.data.valid
    settings = valid.settings if valid.name == train.name else train.settings
    if run is not None:
        given = Choice(train.name, {**settings, "path": str(path.absolute())})
        settings = located(given, run).settings
    return _made(WHOLE[train.name], settings, path)


def _made(kind: type[Any], settings: Mapping[str, Any], path: Path) -> Any:
    """A reader with those settings that it knows, and with another file."""
    known = {field.name for field in fields(kind)} - {"normalise"}
    kept = {key: value for key, value in settings.items() if key in known}
    return read_section(kind, {**kept, "path": str(path)}, "data.train", Mistakes())


def sources_like(recipe: Recipe, path: Path) -> Iterator[str] | None:
    """What a run reads of each JSON object, or each sentence of a treebank; None of other files."""
    train = recipe.data.train
    if holds_objects(path):
        return _objects_like(train, path).sources()
    if train.name == "conllu" and has_run_form(train, path):
        return cast(Treebank, _whole_like(recipe, path, None)).sources()
    return Treebank(path).sources() if _ending(path) == "conllu" else None


def addresses_like(recipe: Recipe, path: Path, run: Path) -> Iterator[str] | None:
    """The pictures that a file of the run's form names; None of other files."""
    if not has_run_form(recipe.data.train, path):
        return None
    return (one.source for one in _whole_like(recipe, path, run).examples())


def unread_like(train: Choice) -> str | None:
    """What is left unread of lines that are no plain texts, in words; None if nothing is."""
    return BEFORE_TAB if train.name == "tsv" else cut_like(train)


def cut_like(train: Choice) -> str | None:
    """What is left unread of JSON objects, in words; None if nothing is."""
    most = _keys(train).get("max_words")
    if most is None:
        return None
    return f"of each JSON object the first {most:,} words are read, as in training (max_words)"


def text_like(train: Choice, line: str, where: str) -> str:
    """What a run reads of a line that came in no file of JSON objects.

    A run that learned from JSON objects never reads one as text, and one that learned from tsv
    never reads a tab: such a line is read as its own were. All other lines are texts.

    Args:
        train: the training data of the run.
        line: as the caller gives it.
        where: it was given, for errors.
    """
    reader = _lines_like(train, Path())
    if reader is None or not reader.is_row(line):
        return line
    try:
        return reader.source_of(line.removeprefix("\ufeff"), f"{train.name}: {where}")
    except DataError as error:
        raise DataError(
            f"{error} The run learned from JSON objects: give such ones, or texts that do not "
            "begin like one."
        ) from error
