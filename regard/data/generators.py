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
Generate = Callable[..., Iterator[Example]]
"""A split, a count and settings → examples."""


def _of_letters(name: str, order: Callable[[Sequence[str]], Sequence[int]]) -> Generate:
    """The generator whose targets have the letters of the sources in this order."""

    def generate(
        split: str, count: int, *, seed: int = 0, min_letters: int = 2, max_letters: int = 9
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

    return generate


PICTURE_GENERATORS: Mapping[str, Generate] = {"scenes": scenes}
"""Those whose sources are addresses of pictures."""

GENERATORS: Mapping[str, Generate] = {
    "copy": _of_letters("copy", lambda letters: range(len(letters))),
    "reverse": _of_letters("reverse", lambda letters: range(len(letters))[::-1]),
    "sort": _of_letters(
        "sort", lambda letters: sorted(range(len(letters)), key=letters.__getitem__)
    ),
    "dates": dates,
    **PICTURE_GENERATORS,
}
