"""Splits of generated data: a hash assigns each example to one split, so that splits are disjoint.

    split(x) = train, valid or test as hash(x) mod 100 is below 80, below 90, or not

The hash depends on neither seed nor count: a test example of one seed is never trained on.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping

from regard.choices import find
from regard.data.examples import Example
from regard.errors import SettingError

SPLITS: Mapping[str, range] = {
    "train": range(80),
    "valid": range(80, 90),
    "test": range(90, 100),
}
"""The values of hash mod 100 that belong to a split."""

PATIENCE = 2_000
"""How many draws may fail in a row before a generator raises that it has nothing new."""


def belongs(text: str, split: str) -> bool:
    """Whether a text is one of this split's."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100 in find(split, SPLITS)


def distinct(
    name: str, split: str, count: int, draw: Callable[[], Example], key: Callable[[Example], str]
) -> Iterator[Example]:
    """Draw until `count` examples with different sources have come whose key is this split's."""
    find(split, SPLITS)
    if count < 1:
        raise SettingError(f"{name}: count must be at least 1, got {count}.")
    seen: set[str] = set()
    failures = 0
    while len(seen) < count:
        example = draw()
        if example.source in seen or not belongs(key(example), split):
            failures += 1
            if failures == PATIENCE:
                raise SettingError(
                    f"{name}: {count} examples of {split} were asked for, but only {len(seen)} "
                    "different ones were found. Ask for fewer, or for longer ones."
                )
            continue
        failures = 0
        seen.add(example.source)
        yield example
