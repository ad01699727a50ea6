"""Readers: each reads files of one format and gives `examples()`, in file order.

    parallel      NAME.en beside NAME.de, line by line; several targets are several references
    tsv           source TAB reference [TAB reference ...]
    jsonl         one object a line, with a key for the source and one for the target
    shards        a folder of such files, in the order of their names
    conllu        a treebank: the words of a sentence, and a tag for each (treebanks.py)
    documents     JSON objects with title, abstract and sections (documents.py)
    running_text  a text cut into rows, for language models (running_text.py)
    huggingface   a data set of the Hugging Face hub
    elsewhere     stands for the absent data of an imported model
    caption_lines, karpathy, flickr8k
                  captioned pictures (captions.py)

A reader never repairs, cuts or skips: what it cannot read is a DataError with the line. With
`normalise`, both sides of every example are brought to the form of that name (normalisation.py).
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard.data.captions import CaptionLines, Flickr8kTokens, KarpathyJson
from regard.data.documents import Documents
from regard.data.examples import (
    Example,
    ExampleReader,
    FileReader,
    FileRow,
    LineReader,
    from_json,
    in_form,
    text_of,
    texts_of,
    value_at,
)
from regard.data.files import PACKINGS, Broken, check_is_file, tolerant_lines
from regard.data.running_text import RunningText
from regard.data.treebanks import Treebank
from regard.errors import DataError, MissingExtra


@dataclass(frozen=True)
class ParallelFiles(FileReader):
    """Parallel files: line 7 of the source belongs to line 7 of each target."""

    source: Path
    """The file that is read, a text a line."""
    target: tuple[Path, ...]
    """The file of its answers, line by line; several are more references."""

    def __post_init__(self) -> None:
        if not self.target:
            raise DataError(f"parallel: '{self.source}' stands alone; give a target file too.")
        super().__post_init__()

    def rows(self) -> Iterator[FileRow]:
        """Every line, and a broken row where a file has ended before another."""
        paths = (self.source, *self.target)
        for number, texts in enumerate(zip_longest(*map(tolerant_lines, paths)), 1):
            broken = [text for text in texts if isinstance(text, Broken)]
            if None in texts:
                broken.append(self._unequal(number, texts))
            if broken:
                yield FileRow(self.source, number, tuple(broken))
            else:
                source, *targets = (text for text in texts if isinstance(text, str))
                yield FileRow(self.source, number, Example(source, tuple(targets)))
            if None in texts:
                return

    def _unequal(self, number: int, texts: Sequence[str | Broken | None]) -> Broken:
        paths = (self.source, *self.target)
        counts = [sum(1 for _ in tolerant_lines(path)) for path in paths]
        each = ", ".join(f"'{path}' has {n}" for path, n in zip(paths, counts, strict=True))
        alone = next(path for path, text in zip(paths, texts, strict=True) if text is not None)
        said = (
            f"parallel: the files must have as many lines as each other, but {each}. Line {number} "
            f"of '{alone}' is the first without a partner."
        )
        return Broken("line_counts", alone, number, said)


@dataclass(frozen=True)
class TabSeparated(LineReader):
    """One example a line: the source, a tab, a reference, and more references after more tabs."""

    path: Path
    """The file: source, a tab, and its references with tabs between them."""
    who = "tsv"

    def is_row(self, line: str) -> bool:
        """Whether references follow the source."""
        return "\t" in line

    def source_of(self, line: str, where: str) -> str:
        """The text before the first tab; no reference needs to follow."""
        return line.partition("\t")[0]

    def example_of(self, line: str, where: str) -> Example:
        """The source and its references."""
        source, *targets = line.split("\t")
        if not targets:
            raise DataError(
                f"{where} has no tab; expected source TAB reference [TAB reference ...]."
            )
        return Example(source, tuple(targets))


@dataclass(frozen=True)
class JsonLines(LineReader):
    """One JSON object a line. A key may be dotted, as in translation.en; a target may be a list."""

    path: Path
    """The file, a JSON object a line."""
    source: str = "source"
    """The key of the text that is read."""
    target: str = "target"
    """The key of the answer, or of a list of references."""
    who = "jsonl"

    def source_of(self, line: str, where: str) -> str:
        """The value of the source's key."""
        return _source(where, from_json(line, where), self.source)

    def example_of(self, line: str, where: str) -> Example:
        """The values of both keys."""
        return _example(where, from_json(line, where), self.source, self.target)


@dataclass(frozen=True)
class Shards(FileReader):
    """A folder of .tsv and .jsonl files (also .gz, .xz), and of pairs of files with two suffixes.

    With `suffixes`, say ("en", "de"), NAME.en and NAME.de are read as one shard and files with
    other endings are left alone. Without, a file of any other kind is an error.
    """

    folder: Path
    """The folder, whose files are read in the order of their names."""
    suffixes: tuple[str, str] | None = None
    """The endings of pairs of files: of the source and of the target."""
    source: str = "source"
    """The key of the text that is read, in shards of JSON lines."""
    target: str = "target"
    """The key of the answer in shards of JSON lines."""

    def rows(self) -> Iterator[FileRow]:
        """Every line of every shard, in the order of their names, the broken ones too."""
        return (row for reader in self.members() for row in reader.rows())

    def members(self) -> list[FileReader]:
        """One reader for each shard."""
        if not self.folder.is_dir():
            raise DataError(
                f"shards: '{self.folder}' is not a folder. Give the folder that holds the shards."
            )
        found: dict[str, Path] = {}
        for path in sorted(self.folder.iterdir()):
            twin = found.setdefault(unpacked(path), path)
            if twin != path:
                raise DataError(
                    f"shards: '{twin}' and '{path.name}' are one shard twice; take one away."
                )
        readers = [self._reader(p, found) for p in found.values() if not p.name.startswith(".")]
        members = [reader for reader in readers if reader is not None]
        if not members:
            raise DataError(f"shards: '{self.folder}' holds no shard. {self._expected()}")
        return members

    def _reader(self, path: Path, found: Mapping[str, Path]) -> FileReader | None:
        """The reader that starts at this file; None for a target and for an ignored file."""
        stem, _, ending = unpacked(path).rpartition(".")
        if ending in _SHARD_READERS:
            return _SHARD_READERS[ending](path, (self.source, self.target))
        if self.suffixes is None:
            raise DataError(f"shards: '{path}' is no shard. {self._expected()}")
        if ending not in self.suffixes:
            return None
        source, target = (f"{stem}.{suffix}" for suffix in self.suffixes)
        for name in (source, target):
            if name not in found:
                raise DataError(
                    f"shards: '{path}' has no partner '{name}' beside it. Add that file, or take "
                    "this one away."
                )
        return ParallelFiles(path, (found[target],)) if ending == self.suffixes[0] else None

    def _expected(self) -> str:
        pairs = (
            f"NAME.{self.suffixes[0]} with NAME.{self.suffixes[1]}"
            if self.suffixes
            else "with suffixes (such as en, de) pairs of files"
        )
        return f"Expected *.tsv, *.jsonl (also .gz, .xz), or {pairs}."


@dataclass(frozen=True)
class HuggingFace(ExampleReader):
    """A data set of the Hugging Face hub; columns may be dotted, as in translation.en."""

    name: str
    """The name of the data set on the hub."""
    split: str
    """Its split, such as train."""
    source: str
    """The column that is read; dotted for one inside another."""
    target: str
    """The column of the answer."""
    configuration: str | None = None
    """Which of several forms of the data set."""

    def examples(self) -> Iterator[Example]:
        """Every row of the split."""
        return in_form(self.normalise, self._rows())

    def _rows(self) -> Iterator[Example]:
        try:
            datasets = importlib.import_module("datasets")
        except ImportError as error:
            raise MissingExtra(
                "huggingface: datasets is not installed. Run pip install 'regard[huggingface]'."
            ) from error
        rows = datasets.load_dataset(self.name, self.configuration, split=self.split)
        for number, row in enumerate(rows, 1):
            where = f"huggingface: '{self.name}', {self.split}, row {number}"
            yield _example(where, row, self.source, self.target)


@dataclass(frozen=True)
class ImportedData(ExampleReader):
    """Takes the place of data in the recipe of an imported run; it has no examples."""

    model: str
    """What was imported."""

    def examples(self) -> Iterator[Example]:
        """Raise an error: the data of an imported model are not available."""
        raise DataError(
            f"elsewhere: the run was imported ('{self.model}'), and the data that it learned from "
            "are not here. Give texts of your own: --source and --reference, or another [data]."
        )


PICTURE_READERS: Mapping[str, type[ExampleReader]] = {
    "caption_lines": CaptionLines,
    "karpathy": KarpathyJson,
    "flickr8k": Flickr8kTokens,
}
"""The readers whose sources are addresses of pictures."""

READERS: Mapping[str, type[ExampleReader]] = {
    "parallel": ParallelFiles,
    "tsv": TabSeparated,
    "jsonl": JsonLines,
    "shards": Shards,
    "conllu": Treebank,
    "documents": Documents,
    "running_text": RunningText,
    "huggingface": HuggingFace,
    "elsewhere": ImportedData,
    **PICTURE_READERS,
}

_SHARD_READERS: Mapping[str, Callable[[Path, tuple[str, str]], FileReader]] = {
    "tsv": lambda path, keys: TabSeparated(path),
    "jsonl": lambda path, keys: JsonLines(path, *keys),
}
"""The reader for a shard with this ending."""

FILE_READERS: Mapping[str, Callable[[Path, tuple[str, str]], FileReader]] = {
    **_SHARD_READERS,
    "conllu": lambda path, keys: Treebank(path),
}
"""The reader for a single file with this ending."""


def reader_for(
    paths: Sequence[Path],
    *,
    suffixes: tuple[str, str] | None = None,
    keys: tuple[str, str] = ("source", "target"),
    remedy: str = "Give the source file and then its target file.",
) -> FileReader:
    """The reader for paths a user typed: one file, one folder, or a source and its targets.

    `remedy` is what an error says about a single file that holds only sources.
    """
    if not paths:
        raise DataError("data: no file was given.")
    first, *others = paths
    if first.is_dir() and not others:
        return Shards(first, suffixes, *keys)
    for path in paths:
        check_is_file(path)
    if others:
        return ParallelFiles(first, tuple(others))
    check_has_reader(first)
    ending = unpacked(first).rpartition(".")[2]
    if ending not in FILE_READERS:
        raise DataError(
            f"data: '{first}' alone is neither .tsv nor .jsonl nor .conllu (also .gz, .xz) nor a "
            f"folder. {remedy}"
        )
    return FILE_READERS[ending](first, keys)


def check_has_reader(path: Path) -> None:
    """Refuse a table in a form that no reader takes."""
    ending = unpacked(path).rpartition(".")[2].lower()
    if ending in ("csv", "json", "parquet", "xlsx"):
        raise DataError(
            f"data: '{path}' is .{ending}, which no reader takes. Write its rows as JSON lines "
            '(.jsonl), one object such as {"source": …, "target": …} in each line.'
        )


def unpacked(path: Path) -> str:
    """A file's name without .gz or .xz."""
    return path.name.removesuffix(path.suffix) if path.suffix in PACKINGS else path.name


NAME_KEYS = " Name the two that are meant: --keys SOURCE,TARGET, or source and target in a recipe."
"""What to do about a missing key."""


def _example(where: str, row: Any, source: str, target: str) -> Example:
    text = _source(where, row, source)
    return Example(text, texts_of(where, target, _value(where, row, target)))


def _source(where: str, row: Any, key: str) -> str:
    text = _value(where, row, key)
    hint = " Lists of texts are read by the reader 'documents'." * isinstance(text, list)
    return text_of(where, key, text, hint=hint)


def _value(where: str, row: Any, key: str) -> Any:
    """The value of the key itself, or of the nested keys that its dots separate."""
    first, dot, rest = key.partition(".")
    if dot and isinstance(row, dict) and key not in row and first in row:
        return _value(where, row[first], rest)
    return value_at(where, row, key, hint=NAME_KEYS)
