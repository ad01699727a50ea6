"""Numbers that carry a word and its head.

Files want to know how large they become, and sources must bring the heads along.
"""

from dataclasses import dataclass, replace
from typing import final

from regard.data.corpus import Numbering
from regard.data.parsed_words import LONGEST, heads_of_source
from regard.data.subwords import Subwords


@final
@dataclass(frozen=True)
class Carrying:
    """Sub-words for files: there are as many numbers as words times heads."""

    subwords: Subwords

    @property
    def fingerprint(self) -> str:
        """Of the sub-words."""
        return self.subwords.fingerprint

    def __len__(self) -> int:
        return len(self.subwords) * (LONGEST + 1)

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """The numbers of each text."""
        return self.subwords.encode_all(texts)


def for_files(numbering: Numbering) -> Numbering:
    """What a file is told: sub-words themselves, unless their numbers carry more than a word."""
    if isinstance(numbering, Subwords) and numbering.kind.heads is not None:
        return Carrying(numbering)
    return numbering


def for_sources(subwords: Subwords) -> Subwords:
    """What reads sources: the same, but where words carry heads no text may come without them."""
    if subwords.kind.heads is None:
        return subwords
    return subwords.of_kind(replace(subwords.kind, heads=heads_of_source))
