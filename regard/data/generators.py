"""Generators: examples without files, each a pure function of seed, split and count.

    copy      a b c  →  a b c
    reverse   a b c  →  c b a
    sort      c a b  →  a b c
    dates     5 mars 2024  →  2024-03-05, in many languages (dates.py)
    scenes    a drawn picture  →  a small red circle left of a large blue square (scenes.py)

No source stands twice in a split or in two splits, and every example of a text keeps its true
alignment.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from regard.data.dates import dates
from regard.data.examples import Example
from regard.data.scenes import scenes
from regard.data.splits import distinct
from regard.errors import SettingError

LETTERS = "abcdefghij"


def copy(
    split: str, count: int, *, seed: int = 0, min_letters: int = 2, max_letters: int = 9
) -> Iterator[Example]:
    """Say the letters again.

    >>> next(copy("train", 1)) == next(copy("train", 5))
    True
    """
    return _letters("copy", _as_they_stand, split, count, seed, min_letters, max_letters)


def reverse(
    split: str, count: int, *, seed: int = 0, min_letters: int = 2, max_letters: int = 9
) -> Iterator[Example]:
    """Say the letters from the last to the first."""
    return _letters("reverse", _from_the_end, split, count, seed, min_letters, max_letters)


def sort(
    split: str, count: int, *, seed: int = 0, min_letters: int = 2, max_letters: int = 9
) -> Iterator[Example]:
    """Say the letters in the order of the alphabet."""
    return _letters("sort", _by_the_alphabet, split, count, seed, min_letters, max_letters)


PICTURE_GENERATORS: Mapping[str, Callable[..., Iterator[Example]]] = {"scenes": scenes}
"""Those whose sources are addresses of pictures."""

GENERATORS: Mapping[str, Callable[..., Iterator[Example]]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "dates": dates,
    **PICTURE_GENERATORS,
}


def _as_they_stand(letters: Sequence[str]) -> list[int]:
    return list(range(len(letters)))


def _from_the_end(letters: Sequence[str]) -> list[int]:
    return list(range(len(letters)))[::-1]


def _by_the_alphabet(letters: Sequence[str]) -> list[int]:
    return sorted(range(len(letters)), key=lambda place: letters[place])


def _letters(
    name: str,
    order: Callable[[Sequence[str]], list[int]],
    split: str,
    count: int,
    seed: int,
    min_letters: int,
    max_letters: int,
) -> Iterator[Example]:
    if not 1 <= min_letters <= max_letters:
        raise SettingError(
            f"{name}: expected 1 <= min_letters <= max_letters, got {min_letters} and "
            f"{max_letters}."
        )
    draws = random.Random(f"{name}/{seed}/{split}")

    def draw() -> Example:
        letters = draws.choices(LETTERS, k=draws.randint(min_letters, max_letters))
        places = order(letters)
        # a letter and its space take two characters, so letter i is character 2i
        links = tuple(sorted((2 * place, 2 * i) for i, place in enumerate(places)))
        return Example(" ".join(letters), (" ".join(letters[p] for p in places),), links)

    return distinct(name, split, count, draw, lambda example: example.source)
