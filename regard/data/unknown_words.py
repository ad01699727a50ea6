"""Unknown words: what of a text a vocabulary has no pieces for, or only such as never occurred."""

import re
from collections.abc import Container, Iterable

from regard.data.subword_kinds import UNK
from regard.data.subwords import Subwords


def unknown_rate(subwords: Subwords, texts: Iterable[str]) -> float:
    """The share of characters for which there is no piece: unknown, or spelt byte by byte."""
    unknown, all_of_them = 0, 0
    for text in texts:
        missed = {
            place
            for number, (start, end) in subwords.covered(text)
            if number == UNK or subwords.kind.read(subwords.pieces[number]) is None
            for place in range(start, end)
            if number == UNK or not text[place].isascii()
        }
        unknown += len(missed)
        all_of_them += len(text)
    return unknown / all_of_them if all_of_them else 0.0


def words_with(subwords: Subwords, text: str, pieces: Container[int]) -> list[str]:
    """The words of a text, each once, that have one of these pieces.

    >>> subwords = Subwords.train(["to be or not to be"], size=300)
    >>> words_with(subwords, "to be or", subwords.encode(" or"))
    ['or']
    """
    places = {
        i for number, span in subwords.covered(text) if number in pieces for i in range(*span)
    }
    words = re.finditer(r"\S+", text)
    held = (word.group() for word in words if not places.isdisjoint(range(*word.span())))
    return list(dict.fromkeys(held))
