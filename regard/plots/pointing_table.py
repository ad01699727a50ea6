"""The pointing game as a table of text, chance beside every number."""

from collections.abc import Mapping

from regard.evaluating.pointing_game import Pointing, all_words

HEAD = ("words that name", "count", "pointed", "chance", "mass", "chance", "reachable")


def pointing_table(game: Mapping[str, Pointing]) -> str:
    """Classes of words down, then all of them; shares in per cent.

    >>> print(pointing_table({"shape": Pointing(8, 6.0, 5.0, 1.0, 1.5, 8)}))
    words that name   count   pointed    chance      mass    chance reachable
    shape                 8      75.0      12.5      62.5      18.8     100.0
    all                   8      75.0      12.5      62.5      18.8     100.0
    """
    rows = [_row(name, one) for name, one in {**game, "all": all_words(game)}.items()]
    wide = max(len(row[0]) for row in (HEAD, *rows))
    return "\n".join(_line(row, wide) for row in (HEAD, *rows))


def _row(name: str, one: Pointing) -> tuple[str, ...]:
    shares = (
        one.pointed,
        one.pointed_by_chance,
        one.held,
        one.held_by_chance,
        one.reachable / max(one.words, 1),
    )
    return name, f"{one.words:,}", *(f"{100 * share:.1f}" for share in shares)


def _line(row: tuple[str, ...], wide: int) -> str:
    return f"{row[0]:<{wide}}{row[1]:>8}" + "".join(f"{cell:>10}" for cell in row[2:])
