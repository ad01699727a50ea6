"""A long text → pieces that a model can read, cut where sentences end if that is possible."""

import re
from collections.abc import Callable, Sequence

CUTS: Sequence[re.Pattern[str]] = (
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])"),
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、])"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)
"""Where a text may be cut: after sentences, after clauses, between words, between characters."""


def in_pieces(text: str, most: int, length: Callable[[str], int]) -> list[str]:
    """Pieces none of which is longer than `most`; nothing but spaces is lost.

    >>> in_pieces("To be, or not to be? That is the question.", 25, len)
    ['To be, or not to be?', 'That is the question.']
    """
    return _cut(text.strip(), most, length, CUTS)


def _cut(
    text: str, most: int, length: Callable[[str], int], cuts: Sequence[re.Pattern[str]]
) -> list[str]:
    if length(text) <= most or not cuts:
        return [text]
    pieces: list[str] = []
    at, begun = 0, 0
    for part in _parts(text, cuts[0]):
        if at > begun and length(text[begun : part.stop].strip()) > most:
            pieces.append(text[begun:at].strip())
            begun = part.start
        at = part.stop
    pieces.append(text[begun:].strip())
    return [part for piece in pieces for part in _cut(piece, most, length, cuts[1:])]


def _parts(text: str, cut: re.Pattern[str]) -> list[slice]:
    """The stretches between cuts, each with the space after it."""
    ends = [match.end() for match in cut.finditer(text)]
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]
