"""Makes regard/data/cldr/dates.json from CLDR's tables, which babel holds.

python -m tests.data.cldr_table
"""

import datetime
import json
from importlib.metadata import files
from pathlib import Path

from babel import Locale
from babel.dates import DateTimeFormat, tokenize_pattern

from regard.data.dates import TABLE

STYLES = ("full", "long", "medium", "short")
SKELETONS = ("yMMMd", "yMMMEd", "yMEd", "yMd")
MONTHS = [datetime.date(2024, month, 1) for month in range(1, 13)]
WEEK = [datetime.date(2024, 1, day) for day in range(1, 8)]
"""From a Monday on."""


LOCALES = {"ar": "ar_EG"}
"""Where a language's dates are not those of its own name's locale."""
ZEROS = {"ar": ("٠", "0"), "hi": ("0", "०")}
MORE = {"fi": ("ccc d. MMMM y",), "cs": ("EEE d. MMMM y",)}
"""Patterns beside the locale's own, where most of those write the month as a number."""
CODES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "fi", "pl", "cs", "hu", "tr", "vi", "el",
         "ru", "he", "ar", "hi", "zh", "ja", "ko")  # fmt: skip


def locale_of(code):
    """The locale whose dates stand for a language."""
    return Locale.parse(LOCALES.get(code, code))


def table():
    """What regard.data.dates.Language holds, for each language."""
    return {code: _language(code, locale_of(code)) for code in CODES}


def _language(code, locale):
    found = [locale.date_formats[style].pattern for style in STYLES]
    found += [str(locale.datetime_skeletons[name].pattern) for name in SKELETONS]
    every = dict.fromkeys([*found, *MORE.get(code, ())])
    patterns = [pattern for pattern in every if has_one_reading(pattern)]
    cut = [value for pattern in patterns for token, value in tokenize_pattern(pattern)
           if token == "field"]  # fmt: skip
    fields = {kind * length for kind, length in cut if kind in "Ec" or length > 2}
    return {
        "name": Locale.parse(code).english_name,
        "zeros": ZEROS.get(code, ("0",)),
        "patterns": patterns,
        "words": {field: _words(locale, field) for field in sorted(fields - {"yyyy"})},
    }


def has_one_reading(pattern):
    """Whether year, month and day stand there once, and the day cannot be taken for the month."""
    fields = [value for token, value in tokenize_pattern(pattern) if token == "field"]
    told = [("M" if kind == "L" else kind, length) for kind, length in fields if kind not in "Ec"]
    order = "".join(kind for kind, _ in told)
    if sorted(order) != ["M", "d", "y"] or ("y", 2) in told:
        return False
    return dict(told)["M"] >= 3 or order == "yMd"


def _words(locale, field):
    days = WEEK if field[0] in "Ec" else MONTHS
    return [DateTimeFormat(day, locale)[field] for day in days]


def main():
    """Write the table and the licence of its words."""
    lines = [f"{json.dumps(code)}: {json.dumps(row, ensure_ascii=False)}" for code, row in
             table().items()]  # fmt: skip
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    licence = next(file for file in files("babel") if file.name == "LICENSE.unicode")
    (TABLE.parent / "LICENSE").write_text(Path(licence.locate()).read_text())


if __name__ == "__main__":
    main()
