"""Running text: a file cut into rows of so many words, for language models.

    row i     source = the `context` words before it,   target = words[i · every : i · every + n]

Each end of a line is a word of its own, as the WikiText benchmarks count it. A perplexity per word
counts every word once if `every` is the length of a row, whatever the sub-words; overlapping rows
show training the same text cut at other places.

Where spaces are kept, a word holds the white space before it, ends of lines too, so that the rows
together are the text, character by character.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.examples import Example, ExampleReader
from regard.data.files import lines
from regard.errors import SettingError

MAX_SPENT_WORDS = 1 << 16
"""Words already passed that are kept in memory before they are deleted together."""


@dataclass(frozen=True)
class RunningText(ExampleReader):
    """A text that goes on from row to row."""

    path: Path
    """The file of the text."""
    words: int = 256
    """Words in a row."""
    every: int | None = None
    """How many words later the next row begins, at most `words`; after the row unless given."""
    context: int = 0
    """How many words before a row are its source: they are read and not predicted."""
    line_end: str = "¶"
    """The word that stands for the end of a line."""
    keeps_spaces: bool = False
    """Whether white space is kept as it is, line ends too, and not made single spaces."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words < 1 or (self.every is not None and self.every < 1) or self.context < 0:
            raise SettingError(
                "running_text: words and every must be at least 1 and context at least 0, got "
                f"{self.words}, {self.every} and {self.context}."
            )
        if self.every is not None and self.every > self.words:
            raise SettingError(
                f"running_text: a row of {self.words} words every {self.every} would leave words "
                f"out. Take every = {self.words} or less."
            )
        if self.normalise is not None:
            raise SettingError("running_text: normalise is for two sides. Leave it out.")
        if len(self.line_end.split()) != 1:
            raise SettingError(f"running_text: line_end must be one word, got '{self.line_end}'.")

    def examples(self) -> Iterator[Example]:
        """Every row; the last may be short, but has at least one word that no earlier row has."""
        held: list[str] = []
        start, end, step = 0, 0, self.every or self.words
        for word in self._words():
            held.append(word)
            if len(held) - start == self.words:
                yield self._row(held, start)
                start, end = start + step, len(held)
                if start - self.context > MAX_SPENT_WORDS:
                    gone = start - self.context
                    del held[:gone]
                    start, end = start - gone, end - gone
        if end < len(held):
            yield self._row(held, start)

    def _row(self, held: list[str], start: int) -> Example:
        before, between = held[max(0, start - self.context) : start], " " * (not self.keeps_spaces)
        row = between.join(held[start : start + self.words])
        return Example(between.join(before), (row,))

    def _words(self) -> Iterator[str]:
        if self.keeps_spaces:
            yield from self._spaced_words()
            return
        for line in lines(self.path):
            yield from line.split()
            yield self.line_end

    def _spaced_words(self) -> Iterator[str]:
        """Each word with the white space before it, and the white space at the end."""
        waiting = ""
        for line in lines(self.path):
            for word in re.findall(r"\s*\S+", line):
                yield waiting + word
                waiting = ""
            waiting += line[len(line.rstrip()) :] + "\n"
        if waiting:
            yield waiting
