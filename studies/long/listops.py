"""ListOps: nested lists of digits under four operators, long enough that a reader must remember.

    [MAX 2 9 [MIN 4 7 ] 0 ]   is   9

    python -m studies.long.listops data/listops
    python -m studies.long.listops data/listops --train 24000 --valid-from valid.tsv.xz

Expressions are those of the Long Range Arena: up to 10 arguments, up to 10 levels, every fourth
node a list, 501 to 1,999 tokens. Files of one expression a line are written, train.tsv and
valid.tsv: the expression, a tab, its value. A file with the value first may be given as the second.

Paper: Nangia & Bowman 2018 (ListOps); Tay et al. 2021 (Long Range Arena), section 2.1.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from regard.data import lines

OPERATORS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: _median(sorted(values)),
    "SM": lambda values: sum(values) % 10,
}
"""What a list may be asked for; SM is the sum's last digit, MED the median, rounded down."""
DEEPEST, MOST, SHARE = 10, 10, 0.25
"""Levels of a tree, arguments of a list, and the share of nodes that are lists."""
SHORTEST, LONGEST = 501, 1999
"""Tokens of an expression, brackets counted."""


def _median(values: Sequence[int]) -> int:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) // 2


class _TooLongError(Exception):
    """A tree that has grown past the limit."""


def tree(draws: random.Random, longest: int = LONGEST) -> tuple[list[str], int] | None:
    """The tokens of one expression and its value; None if it would be longer."""
    tokens: list[str] = []

    def node(level: int) -> int:
        if len(tokens) >= longest:
            raise _TooLongError
        if level == DEEPEST or draws.random() > SHARE:
            tokens.append(str(draws.randrange(10)))
            return int(tokens[-1])
        name = draws.choice(list(OPERATORS))
        tokens.append(f"[{name}")
        values = [node(level + 1) for _ in range(draws.randint(2, MOST))]
        tokens.append("]")
        return OPERATORS[name](values)

    try:
        value = node(1)
    except _TooLongError:
        return None
    return (tokens, value) if len(tokens) <= longest else None


def expressions(seed: int) -> Iterator[tuple[str, int]]:
    """Long expressions with their values, as many as are asked for, no one twice."""
    draws, seen = random.Random(seed), set()
    while True:
        found = tree(draws)
        if found is None or len(found[0]) < SHORTEST:
            continue
        text = " ".join(found[0])
        if hash(text) not in seen:
            seen.add(hash(text))
            yield text, found[1]


def turned(path: Path) -> Iterator[tuple[str, int]]:
    """The expressions of a file that has their values first."""
    for line in lines(path):
        value, _, text = line.partition("\t")
        yield text, int(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where train.tsv and valid.tsv go.")
    parser.add_argument("--train", type=int, default=96000, help="Expressions to learn from.")
    parser.add_argument("--valid", type=int, default=2000, help="Expressions to be asked.")
    parser.add_argument("--valid-from", type=Path, help="Ask these; values first.")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    made = expressions(given.seed)
    asked = list(turned(given.valid_from) if given.valid_from else islice(made, given.valid))
    known = {text for text, _ in asked}
    with (given.folder / "valid.tsv").open("w") as file:
        file.writelines(f"{text}\t{value}\n" for text, value in asked)
    learned = islice((row for row in made if row[0] not in known), given.train)
    with (given.folder / "train.tsv").open("w") as file:
        file.writelines(f"{text}\t{value}\n" for text, value in learned)


if __name__ == "__main__":
    main()
