"""Dates as people write them in twenty-two languages, and the same day in ISO 8601.

    5 mars 2024 · 5. März 2024 · 2024年3月5日 · ٥ مارس ٢٠٢٤  →  2024-03-05

Names, patterns and digits are those of CLDR, the Unicode consortium's tables, through babel. Only
patterns that can be read in one way are taken: the month is a word, or the year comes first. A
date is written field by field, so which characters say the year is known and never searched for.
"""

import datetime
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from babel import Locale
from babel.dates import DateTimeFormat, tokenize_pattern

from regard.choices import find
from regard.data.examples import Example
from regard.data.splits import distinct
from regard.errors import SettingError


@dataclass(frozen=True)
class Language:
    """A locale of CLDR."""

    locale: str
    zeros: tuple[str, ...] = ("0",)
    """The zero of each row of digits its readers use."""
    more: tuple[str, ...] = ()
    """Patterns beside the locale's own, where most of those write the month as a number."""


LANGUAGES: Mapping[str, Language] = {
    "en": Language("en"),
    "de": Language("de"),
    "fr": Language("fr"),
    "es": Language("es"),
    "it": Language("it"),
    "pt": Language("pt"),
    "nl": Language("nl"),
    "sv": Language("sv"),
    "fi": Language("fi", more=("ccc d. MMMM y",)),
    "pl": Language("pl"),
    "cs": Language("cs", more=("EEE d. MMMM y",)),
    "hu": Language("hu"),
    "tr": Language("tr"),
    "vi": Language("vi"),
    "el": Language("el"),
    "ru": Language("ru"),
    "he": Language("he"),
    "ar": Language("ar_EG", ("٠", "0")),
    "hi": Language("hi", ("0", "०")),
    "zh": Language("zh"),
    "ja": Language("ja"),
    "ko": Language("ko"),
}

STYLES = ("full", "long", "medium", "short")
SKELETONS = ("yMMMd", "yMMMEd", "yMEd", "yMd")
FIELDS: Mapping[str, range] = {"y": range(4), "M": range(5, 7), "L": range(5, 7), "d": range(8, 10)}
"""The characters of YYYY-MM-DD that a field of a pattern tells."""
SILENT = "Ec"
"""Fields that tell nothing ISO 8601 writes: the day of the week."""


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
        pattern = draws.choice(patterns(code))
        zero = draws.choice(LANGUAGES[code].zeros)
        day = datetime.date.fromordinal(draws.randint(first, last))
        return write(day, code, pattern, zero=zero)

    return distinct("dates", split, count, draw, lambda example: example.targets[0])


@cache
def patterns(code: str) -> tuple[str, ...]:
    """The patterns of a language that can be read in one way only, each once."""
    language = LANGUAGES[code]
    locale = Locale.parse(language.locale)
    found = [locale.date_formats[style].pattern for style in STYLES]
    found += [str(locale.datetime_skeletons[name].pattern) for name in SKELETONS]
    every = dict.fromkeys([*found, *language.more])
    return tuple(pattern for pattern in every if has_one_reading(pattern))


def has_one_reading(pattern: str) -> bool:
    """Whether year, month and day stand there once, and no one can mistake the day for the month.

    >>> [has_one_reading(p) for p in ("d MMMM y", "y/M/d", "d/M/y", "d MMM yy")]
    [True, True, False, False]
    """
    fields = [text for text, is_field in _pieces(pattern) if is_field and text[0] not in SILENT]
    order = "".join("M" if field[0] == "L" else field[0] for field in fields)
    if sorted(order) != ["M", "d", "y"] or "yy" in fields:
        return False
    return len(fields[order.index("M")]) >= 3 or order == "yMd"


def write(day: datetime.date, code: str, pattern: str, *, zero: str = "0") -> Example:
    """Write one day by one pattern, and keep which characters tell which digits."""
    written = DateTimeFormat(day, Locale.parse(LANGUAGES[code].locale))
    digits = {ord("0") + i: chr(ord(zero) + i) for i in range(10)}
    source, links = "", []
    for piece, is_field in _pieces(pattern):
        text = written[piece].translate(digits) if is_field else piece
        if is_field:
            told = FIELDS.get(piece[0], range(0))
            places = range(len(source), len(source) + len(text))
            links += [(place, digit) for place in places for digit in told]
        source += text
    return Example(source, (day.isoformat(),), tuple(sorted(links)), group=code)


@cache
def _pieces(pattern: str) -> tuple[tuple[str, bool], ...]:
    """The pattern cut into literal text (False) and fields such as MMMM (True)."""
    cut = [value for _, value in tokenize_pattern(pattern)]
    return tuple((v, False) if isinstance(v, str) else (v[0] * v[1], True) for v in cut)
