"""Treebanks in CoNLL-U, read for tagging: the words of a sentence, and one tag for each.

    1  From  from  ADP   IN  …
    2  the   the   DET   DT  …       →   From the AP        ADP DET PROPN
    3  AP    AP    PROPN NNP …

Words are the syntactic ones, which have the tags: "1-2 don't" is followed by "1 do" and "2 n't",
and these two are read. Empty nodes (8.1), which have no text, are skipped.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from regard.choices import find
from regard.data.examples import Example, FileReader, FileRow
from regard.data.files import Broken, tolerant_lines
from regard.data.parsed_words import MAX_DIGITS, heads_of, with_heads
from regard.errors import DataError, SettingError

N_COLUMNS = 10
WORD, HEAD = 1, 6
TAGS: Mapping[str, int] = {"upos": 3, "xpos": 4}
"""The column of each kind of tags: universal, or the language's own."""
WORD_NUMBER = re.compile("[0-9]+")
NO_WORD = re.compile("[0-9]+[-.][0-9]+")
"""Matches the number of a range of words, 1-2, or of an empty node, 8.1."""
NONE = "_"
"""The sign for an empty column."""

Line = tuple[int, str | Broken]
"""A line with its number."""
Cells = tuple[int, list[str]]
"""The columns of a line, with its number."""


@dataclass(frozen=True)
class Treebank(FileReader):
    """A CoNLL-U file: sentences with an empty line after each."""

    path: Path
    """The file, plain or packed."""
    tags: str = "upos"
    """"upos", the 17 that all languages share, or "xpos", the language's own."""
    has_trees: bool = False
    """Whether each word is written with its head (parsed_words.py): From↑3 the↑3 AP↑4."""

    def __post_init__(self) -> None:
        super().__post_init__()
        find(self.tags, TAGS)
        if self.normalise is not None:
            raise SettingError("conllu: normalise is for pairs of sentences. Leave it out.")

    def rows(self) -> Iterator[FileRow]:
        """Every sentence, numbered by the line it begins in, the broken ones too."""
        for lines in self._sentences():
            number = lines[0][0]
            unreadable = tuple(line for _, line in lines if isinstance(line, Broken))
            try:
                yield FileRow(self.path, number, unreadable or self._sentence(lines))
            except DataError as error:
                yield FileRow.refused(self.path, number, str(error))

    def sources(self) -> Iterator[str]:
        """The source of every sentence; words need no tags."""
        for lines in self._sentences():
            for _, line in lines:
                if isinstance(line, Broken):
                    raise DataError(line.message)
            yield self._source(self._words(lines))

    def _sentences(self) -> Iterator[list[Line]]:
        for is_word, group in groupby(enumerate(tolerant_lines(self.path), 1), _stands_for_a_word):
            if is_word:
                yield list(group)

    def _sentence(self, lines: list[Line]) -> Example:
        words = self._words(lines)
        tags = [(number, cells[TAGS[self.tags]]) for number, cells in words]
        for number, tag in tags:
            if tag in ("", NONE):
                raise self._refused(
                    number, f"has no {self.tags} tag. Tag the file, or take other tags."
                )
        return Example(self._source(words), (" ".join(tag for _, tag in tags),))

    def _words(self, lines: list[Line]) -> list[Cells]:
        """The columns of each word, with the number of its line."""
        words: list[Cells] = []
        for number, line in lines:
            cells = str(line).split("\t")
            if len(cells) != N_COLUMNS:
                raise self._refused(
                    number, f"has {len(cells)} columns; CoNLL-U has {N_COLUMNS}, parted by tabs."
                )
            if NO_WORD.fullmatch(cells[0]):
                continue
            if not WORD_NUMBER.fullmatch(cells[0]):
                raise self._refused(
                    number,
                    f"has the number {cells[0]!r}; expected one such as 3, 3-4 of a range of "
                    "words, or 3.1 of a node that stands for nothing written.",
                )
            words.append((number, cells))
            # compared as text, since a number may be too long for one
            if cells[0].lstrip("0") != str(len(words)):
                raise self._refused(
                    number,
                    f"has the number {cells[0][:20]} where {len(words)} was expected. Is the empty "
                    "line between two sentences missing, or a word?",
                )
            if len(cells[WORD].split()) != 1:
                raise self._refused(
                    number, f"has the word {cells[WORD]!r}; a word has no space, and is not empty."
                )
        if not words:
            raise self._refused(lines[0][0], "begins a sentence without words.")
        return words

    def _source(self, words: list[Cells]) -> str:
        forms = [cells[WORD] for _, cells in words]
        if not self.has_trees:
            return " ".join(forms)
        for number, cells in words:
            # "²".isdigit() is true, but int("²") fails
            if not cells[HEAD].isdecimal() or len(cells[HEAD]) > MAX_DIGITS:
                raise self._refused(
                    number, f"has the head {cells[HEAD]!r}; expected the number of a word, or 0."
                )
        text = with_heads(forms, [int(cells[HEAD]) for _, cells in words])
        try:
            heads_of(text)
        except DataError as error:
            raise self._refused(
                words[0][0], f"begins a sentence that is no tree: {error}"
            ) from error
        return text

    def _refused(self, number: int, said: str) -> DataError:
        return DataError(f"conllu: '{self.path}', line {number} {said}")


def _stands_for_a_word(numbered: Line) -> bool:
    """Whether a line belongs to a sentence; comments and empty lines do not."""
    line = numbered[1]
    return isinstance(line, Broken) or not (line == "" or line.startswith("#"))
