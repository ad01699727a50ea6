"""Gold links between a written date and its digits, from what the generator knows.

The generator says which characters of the source tell which digits of the target: those links are
possible. Where the source writes the number in figures, figure and digit of the same place are one
sure pair, counted from the right: the 5 of "5 May" belongs to the 5 of 05, and its 0 to nobody.
"""

import unicodedata
from collections.abc import Iterable

from regard.evaluating.links import Gold, Link


def digit_gold(source: str, target: str, links: Iterable[Link]) -> Gold:
    """The gold alignment of one date; figures of any script count.

    >>> sorted(digit_gold("9 May", "05-09", [(0, 3), (0, 4), *((s, t) for s in (2, 3, 4)
    ...     for t in (0, 1))]).sure)
    [(0, 4)]

    Args:
        source: the date as written.
        target: its digits.
        links: source and target characters of the same field.
    """
    possible = frozenset(links)
    sure: set[Link] = set()
    for digits in _fields(possible):
        told = {s for s, t in possible if t in digits}
        pairs = zip(sorted(told, reverse=True), sorted(digits, reverse=True), strict=False)
        sure |= {(s, t) for s, t in pairs if _figure(source[s]) == int(target[t])}
    return Gold(frozenset(sure), possible)


def _fields(links: frozenset[Link]) -> set[frozenset[int]]:
    """Target digits that the same source characters tell."""
    by_source: dict[int, set[int]] = {}
    for s, t in links:
        by_source.setdefault(s, set()).add(t)
    return {frozenset(told) for told in by_source.values()}


def _figure(char: str) -> int | None:
    return unicodedata.digit(char, None)
