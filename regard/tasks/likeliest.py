"""The likeliest combinations of what is independent, such as hidden words or labels of words."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def likeliest_together(
    places: Sequence[Sequence[tuple[T, float]]], count: int
) -> list[tuple[tuple[tuple[T, float], ...], float]]:
    """The `count` likeliest ways to choose one at each place, each with its log-probability.

    Each place has its candidates with their log-probabilities, the best `count` of them at least.

    >>> likeliest_together([[("a", -1.0), ("b", -2.0)], [("c", -1.0)]], 1)
    [((('a', -1.0), ('c', -1.0)), -2.0)]
    """
    ways: list[tuple[tuple[tuple[T, float], ...], float]] = [((), 0.0)]
    for place in places:
        longer = [
            ((*before, one), total + one[1]) for before, total in ways for one in place[:count]
        ]
        ways = sorted(longer, key=lambda way: -way[1])[:count]
    return ways
