"""Splits long texts into pieces that a model can read, at ends of sentences if possible."""

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
    """Pieces of at most `most`, as `length` measures them; only spaces are lost.

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
    parts = _parts(text, cuts[0])
    while parts:

        def joined(count: int, first: Sequence[slice] = parts) -> str:
            return text[first[0].start : first[count - 1].stop].strip()

        taken = _most(len(parts), lambda count: length(joined(count)) <= most)
        pieces.append(joined(taken))
        parts = parts[taken:]
    return [part for piece in pieces for part in _cut(piece, most, length, cuts[1:])]


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `count` that fits, and 1 if none does.

    Steps double until one is too large, then bisection follows: the total length that is measured
    is a small multiple of what fits.
    """
    low, step = 1, 1
    while low + step <= count and fits(low + step):
        low, step = low + step, 2 * step
    high = min(low + step, count + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _parts(text: str, cut: re.Pattern[str]) -> list[slice]:
    """The stretches between cuts, each with the space after it."""
    ends = [match.end() for match in cut.finditer(text)]
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]
