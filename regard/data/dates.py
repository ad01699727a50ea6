"""Dates as people write them in twenty-two languages, and the same day in ISO 8601.

    5 mars 2024 · 5. März 2024 · 2024年3月5日 · ٥ مارس ٢٠٢٤  →  2024-03-05

Names, patterns and digits are those of CLDR, the Unicode consortium's tables; `cldr/dates.json`
holds what is needed of them. Only patterns that can be read in one way are taken: the month is a
word, or the year comes first. A date is written field by field, so that the characters of the year
are known without a search.
"""

import datetime
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.choices import find
from regard.data.examples import Example
from regard.data.splits import distinct
from regard.errors import SettingError


@dataclass(frozen=True)
class Language:
    """What CLDR has about dates in a language."""

    name: str
    """The name of the language, in English."""
    zeros: Sequence[str]
    """The zero of each set of digits its readers use."""
    patterns: Sequence[str]
    """The unambiguous patterns for a date, each once."""
    words: Mapping[str, Sequence[str]]
    """Names of months, or of weekdays from Monday on, by the field of a pattern."""


TABLE = Path(__file__).with_name("cldr") / "dates.json"
LANGUAGES: Mapping[str, Language] = {
    code: Language(**row) for code, row in json.loads(TABLE.read_text(encoding="utf-8")).items()
}
FIELDS: Mapping[str, range] = {"y": range(4), "M": range(5, 7), "L": range(5, 7), "d": range(8, 10)}
"""The characters of YYYY-MM-DD that a field of a pattern determines."""
SILENT = "Ec"
"""Fields that ISO 8601 does not write: the day of the week."""
PIECES = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<field>([a-zA-Z])\3*)|(?P<plain>[^a-zA-Z']+)")
"""What a pattern is made of: letters are fields, unless they are quoted."""


def dates(
    split: str,
    count: int,
    *,
    seed: int = 0,
    languages: Sequence[str] = tuple(LANGUAGES),
    first_year: int = 1900,
    last_year: int = 2099,
) -> Iterator[Example]:
    """Dates in words with the day they mean; a day of one split is in no other, in any language.

    >>> example = next(dates("train", 1, languages=["fr"]))
    >>> example.group, len(example.targets[0])
    ('fr', 10)
    """
    if not 1000 <= first_year <= last_year <= 9999:
        raise SettingError(
            f"dates: expected 1000 <= first_year <= last_year <= 9999, got {first_year} and "
            f"{last_year}."
        )
    for code in languages:
        find(code, LANGUAGES)
    if not languages:
        raise SettingError("dates: languages is empty; name at least one, such as en.")
    draws = random.Random(f"dates/{seed}/{split}")
    first = datetime.date(first_year, 1, 1).toordinal()
    last = datetime.date(last_year, 12, 31).toordinal()

    def draw() -> Example:
        code = draws.choice(languages)
        pattern = draws.choice(LANGUAGES[code].patterns)
        zero = draws.choice(LANGUAGES[code].zeros)
        day = datetime.date.fromordinal(draws.randint(first, last))
        return write(day, code, pattern, zero=zero)

    return distinct("dates", split, count, draw, lambda example: example.targets[0])


def language_name(code: str) -> str:
    """What a language is called in English; a code that is not known stays as it is.

    >>> language_name("de"), language_name("xx")
    ('German', 'xx')
    """
    return LANGUAGES[code].name if code in LANGUAGES else code


def write(day: datetime.date, code: str, pattern: str, *, zero: str = "0") -> Example:
    """Write one day by one pattern, and keep which characters align with which digits."""
    digits = {ord("0") + i: chr(ord(zero) + i) for i in range(10)}
    source, links = "", []
    for piece, is_field in _pieces(pattern):
        text = _field(day, code, piece).translate(digits) if is_field else piece
        if is_field:
            told = FIELDS.get(piece[0], range(0))
            places = range(len(source), len(source) + len(text))
            links += [(place, digit) for place in places for digit in told]
        source += text
    return Example(source, (day.isoformat(),), tuple(sorted(links)), group=code)


@cache
def _pieces(pattern: str) -> tuple[tuple[str, bool], ...]:
    """The pattern cut into literal text (False) and fields such as MMMM (True)."""
    return tuple(
        (found["field"], True)
        if found["field"]
        else ((found["plain"] or found["quoted"] or "'").replace("''", "'"), False)
        for found in PIECES.finditer(pattern)
    )


def _field(day: datetime.date, code: str, field: str) -> str:
    """What a day has at a field: a word of the language, or a number with as many digits."""
    words = LANGUAGES[code].words.get(field)
    if words is not None:
        return words[day.weekday() if field[0] in SILENT else day.month - 1]
    number = {"y": day.year, "d": day.day}.get(field[0], day.month)
    return str(number).zfill(len(field))
