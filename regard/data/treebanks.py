"""Treebanks in CoNLL-U, read for tagging: the words of a sentence, and one tag for each.

    1  From  from  ADP   IN  …
    2  the   the   DET   DT  …       →   From the AP        ADP DET PROPN
    3  AP    AP    PROPN NNP …

Words are the syntactic ones, which have the tags: of do n't, written 1-2 don't and then 1 do and 2
n't, the two. Nodes that stand for nothing written (8.1) have no place in a text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from regard.choices import find
from regard.data.examples import Example
from regard.data.files import Broken, tolerant_lines
from regard.data.parsed_words import MOST_DIGITS, heads_of, with_heads
from regard.data.rows import Row, strict
from regard.errors import DataError

N_COLUMNS = 10
WORD, HEAD = 1, 6
TAGS: Mapping[str, int] = {"upos": 3, "xpos": 4}
"""Which column holds a kind of tags: those of all languages, or the language's own."""
WORD_NUMBER = re.compile("[0-9]+")
NO_WORD = re.compile("[0-9]+[-.][0-9]+")
"""The number of a range of words, 1-2, or of a node that stands for nothing written, 8.1."""
NONE = "_"
"""What stands in a column that is not filled in."""

Line = tuple[int, str | Broken]
"""A line with its number."""
Cells = tuple[int, list[str]]
"""The columns of a line, with its number."""


@dataclass(frozen=True)
class Treebank:
    """A CoNLL-U file: sentences with an empty line after each."""

    path: Path
    tags: str = "upos"
    """"upos", the 17 that all languages share, or "xpos", the language's own."""
    has_trees: bool = False
    """Whether each word is written with its head (parsed_words.py): From↑3 the↑3 AP↑4."""

    def __post_init__(self) -> None:
        find(self.tags, TAGS)

    def examples(self) -> Iterator[Example]:
        """Every sentence."""
        return strict(self.rows())

    def rows(self) -> Iterator[Row]:
        """Every sentence, numbered by the line it begins in, the broken ones too."""
        for lines in self._sentences():
            number = lines[0][0]
            unreadable = tuple(line for _, line in lines if isinstance(line, Broken))
            try:
                yield Row(self.path, number, unreadable or self._sentence(lines))
            except DataError as error:
                yield Row(self.path, number, (Broken("format", self.path, number, str(error)),))

    def sources(self) -> Iterator[str]:
        """What is read of every sentence; no word needs a tag."""
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
        columns = [(number, str(line).split("\t")) for number, line in lines]
        for number, cells in columns:
            if len(cells) != N_COLUMNS:
                raise self._refused(
                    number, f"has {len(cells)} columns; CoNLL-U has {N_COLUMNS}, parted by tabs."
                )
        words = [line for line in columns if WORD_NUMBER.fullmatch(line[1][0])]
        self._check_numbers(columns, words)
        for number, cells in words:
            if len(cells[WORD].split()) != 1:
                raise self._refused(
                    number, f"has the word {cells[WORD]!r}; a word has no space, and is not empty."
                )
        return words

    def _check_numbers(self, columns: list[Cells], words: list[Cells]) -> None:
        """Words count from 1, one after another; else they are of two sentences, or some lack."""
        for number, cells in columns:
            if not (WORD_NUMBER.fullmatch(cells[0]) or NO_WORD.fullmatch(cells[0])):
                raise self._refused(
                    number,
                    f"has the number {cells[0]!r}; expected one such as 3, 3-4 of a range of "
                    "words, or 3.1 of a node that stands for nothing written.",
                )
        if not words:
            raise self._refused(columns[0][0], "begins a sentence without words.")
        for place, (number, cells) in enumerate(words, 1):
            # compared as text, since a number may be too long for one
            if cells[0].lstrip("0") != str(place):
                raise self._refused(
                    number,
                    f"has the number {cells[0][:20]} where {place} was expected. Is the empty line "
                    "between two sentences missing, or a word?",
                )

    def _source(self, words: list[Cells]) -> str:
        forms = [cells[WORD] for _, cells in words]
        if not self.has_trees:
            return " ".join(forms)
        for number, cells in words:
            # ² is a digit, and no number
            if not cells[HEAD].isdecimal() or len(cells[HEAD]) > MOST_DIGITS:
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
    """Whether a line is one of a sentence; a comment and an empty line stand between sentences."""
    line = numbered[1]
    return isinstance(line, Broken) or not (line == "" or line.startswith("#"))
