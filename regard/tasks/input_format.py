"""Input formats: how a file is read for a run, in the form of the run's training data.

    .tsv        source TAB reference [TAB reference ...]
    .jsonl      JSON objects, by the keys that the run learned from
    .conllu     a treebank
    others      the form of the training data; for requests, one text per line

The ending of its name gives a file's form; it may be compressed. The run's recipe says how a file
of the form that the run learned from is read (by which keys, cut where, with which pictures), and
how texts are normalised.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from regard.choices import Choice
from regard.data.documents import Documents
from regard.data.examples import ExampleReader, LineReader
from regard.data.files import lines
from regard.data.normalisation import NORMALISERS
from regard.data.readers import FILE_READERS, PICTURE_READERS, READERS, JsonLines, unpacked
from regard.data.treebanks import Treebank
from regard.errors import DataError
from regard.recipes.data_paths import located
from regard.recipes.recipe import Recipe
from regard.recipes.sections import Mistakes, read_section

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
"""The note for files that hold references beside the requests."""


def form_name(recipe: Recipe) -> str | None:
    """The name of the normaliser of the training data, if it has one."""
    return recipe.data.train.settings.get("normalise")


def as_read(recipe: Recipe, text: str) -> tuple[str, Sequence[int]]:
    """A normalised text as in training, and for each word the place of its original word."""
    name = form_name(recipe)
    if name is None:
        return text, range(len(text.split()))
    form = NORMALISERS[name](text)
    return form.text, form.origins


def normalised_text(recipe: Recipe, text: str) -> str:
    """A text normalised as the training data are."""
    return text if form_name(recipe) is None else as_read(recipe, text)[0]


def ending(path: Path) -> str:
    """The ending of a file's name, without that of a compression such as .gz."""
    return unpacked(path).rpartition(".")[2]


def has_run_form(train: Choice, path: Path) -> bool:
    """Whether a file's name has the ending of the form that a run learned from."""
    own = train.settings.get("path")
    return own is not None and ending(path) in (ENDINGS.get(train.name), ending(Path(own)))


def is_read_as_trained(train: Choice, path: Path) -> bool:
    """Whether a file that comes alone with both sides is read by the run's own reader.

    A file with an unknown ending is assumed to have the run's form.
    """
    is_of_texts = "path" in train.settings and train.name not in PICTURE_READERS
    return has_run_form(train, path) or (is_of_texts and ending(path) not in FILE_READERS)


def holds_both_sides(train: Choice | None, path: Path) -> str | None:
    """What a file holds besides requests, in words; None if it holds sources only.

    `train` are the training data of the run, if there is one.
    """
    if ending(path) in ("jsonl", "conllu"):
        return "JSON objects" if ending(path) == "jsonl" else "a treebank"
    has_columns = ending(path) == "tsv" or (train is not None and train.name == "tsv")
    return "references behind tabs" if has_columns and has_rows(TSV, path) else None


def has_rows(train: Choice | None, path: Path) -> bool:
    """Whether all lines of a file but blank ones have the form that a run learned from.

    The file's name is not used. All lines are checked, since one plain line may look like a row.
    """
    found = rows_of_form(train, path)
    return next(found, False) and all(found)


def rows_of_form(train: Choice | None, path: Path) -> Iterator[bool]:
    """Whether each line of a file that is not blank has the form that a run learned from."""
    reader = None if train is None else _lines_like(train, path)
    if reader is not None:
        yield from (reader.is_row(line) for line in lines(path) if line.strip())


def reader_of_file(recipe: Recipe, path: Path, run: Path | None = None) -> ExampleReader | None:
    """The run's data reader, set to a file with both sides; None if the file has another form.

    Texts are left as they are: the caller normalises them. Pictures that the file names are found
    from the run's directory.
    """
    train = recipe.data.train
    if is_read_as_trained(train, path):
        return _lines_like(train, path) or _whole_like(recipe, path, run)
    return _objects_like(train, path) if ending(path) == "jsonl" else None


def _objects_like(train: Choice, path: Path) -> LineReader:
    """The reader of a file of JSON objects, by the run's keys if it has some."""
    # the setting `source` of parallel files is a path, not a key
    keys = {} if train.name == "parallel" else train.settings
    made: LineReader = _made(Documents if train.name == "documents" else JsonLines, keys, path)
    return made


def _lines_like(train: Choice, path: Path) -> LineReader | None:
    kind = READERS.get(train.name, ExampleReader)
    return _made(kind, train.settings, path) if issubclass(kind, LineReader) else None


def _whole_like(recipe: Recipe, path: Path, run: Path | None) -> ExampleReader:
    """The reader of the validation data, or else of the training data, set to another file.

    Validation settings suit texts that are scored, while windows of training data may overlap.
    """
    train, valid = recipe.data.train, recipe.data.valid
    settings = valid.settings if valid.name == train.name else train.settings
    if run is not None:
        given = Choice(train.name, {**settings, "path": str(path.absolute())})
        settings = located(given, run).settings
    return _made(READERS[train.name], settings, path)


def _made(kind: type[Any], settings: Mapping[str, Any], path: Path) -> Any:
    """A reader of this class for a file, with those of the settings that the class has."""
    known = {field.name for field in fields(kind)} - {"normalise"}
    own = {key: settings[key] for key in known & settings.keys()}
    return read_section(kind, {**own, "path": str(path)}, "data.train", Mistakes())


def sources_of_file(recipe: Recipe, path: Path) -> Iterator[str] | None:
    """The source in each JSON object, or each sentence of a treebank; None for other files."""
    train = recipe.data.train
    if ending(path) == "jsonl":
        return _objects_like(train, path).sources()
    if train.name == "conllu" and has_run_form(train, path):
        return cast(Treebank, _whole_like(recipe, path, None)).sources()
    return Treebank(path).sources() if ending(path) == "conllu" else None


def addresses_of_file(recipe: Recipe, path: Path, run: Path) -> Iterator[str] | None:
    """The pictures that a file of the run's form names; None for other files."""
    if not has_run_form(recipe.data.train, path):
        return None
    return (one.source for one in _whole_like(recipe, path, run).examples())


def unread_note(train: Choice) -> str | None:
    """A note on the part of a line that is not read; None if lines are read completely."""
    return BEFORE_TAB if train.name == "tsv" else max_words_note(train)


def max_words_note(train: Choice) -> str | None:
    """A note on the part of JSON objects that is not read; None if all of it is."""
    most = train.settings.get("max_words")
    if most is None:
        return None
    return f"of each JSON object the first {most:,} words are read, as in training (max_words)"


def text_of_line(train: Choice, line: str, where: str) -> str:
    """The source in a line that does not come from a file of JSON objects.

    A run that learned from JSON objects or from tsv reads lines of that form as it read its data:
    by its keys, or up to the first tab. All other lines are texts. Errors name `where` the line was
    given.
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
