"""Dates: one reading each, true alignments, and days that no two splits share."""

import datetime
import json
import unicodedata

import pytest
from babel.dates import format_date
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.dates import LANGUAGES, TABLE, dates, write
from regard.errors import SettingError, UnknownChoice
from tests.data.cldr_table import has_one_reading, locale_of, table

DAYS = st.dates(datetime.date(1900, 1, 1), datetime.date(2099, 12, 31))
DAY = datetime.date(2024, 3, 5)


def test_the_table_is_what_its_script_makes_of_cldr():
    assert json.loads(TABLE.read_text()) == json.loads(json.dumps(table()))


def test_many_languages_and_scripts_are_written():
    written = [write(DAY, code, LANGUAGES[code].patterns[0]).source for code in LANGUAGES]
    scripts = {unicodedata.name(c).split()[0] for text in written for c in text if c.isalpha()}
    assert len(LANGUAGES) >= 12
    assert {"LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "CJK", "HANGUL"} <= (
        scripts
    )
    assert all(len(LANGUAGES[code].patterns) >= 3 for code in LANGUAGES)


@settings(max_examples=60)
@given(day=DAYS, code=st.sampled_from(list(LANGUAGES)))
def test_a_date_is_written_as_babel_writes_it(day, code):
    for pattern in LANGUAGES[code].patterns:
        wanted = format_date(day, pattern, locale_of(code))
        assert write(day, code, pattern).source == wanted


@settings(max_examples=60)
@given(day=DAYS, code=st.sampled_from(list(LANGUAGES)))
def test_links_point_at_the_characters_of_their_field(day, code):
    for pattern in LANGUAGES[code].patterns:
        for zero in LANGUAGES[code].zeros:
            example = write(day, code, pattern, zero=zero)
            told = dict.fromkeys(range(10), "")
            for s, t in example.links:
                told[t] += example.source[s]
            assert told[4] == told[7] == ""
            assert all(told[t] == told[0] for t in range(4))
            assert int(told[0]) == day.year
            assert told[5] == told[6]
            assert int(told[8]) == int(told[9]) == day.day
            if told[5].isdecimal():
                assert int(told[5]) == day.month
            else:
                assert _same_month(told[5], code, pattern, day, zero)


def _same_month(text, code, pattern, day, zero):
    """The month's characters change with the month and with nothing else."""
    other = write(day.replace(day=1, year=2001), code, pattern, zero=zero)
    month = "".join(other.source[s] for s, t in other.links if t == 5)
    return text == month


def test_no_text_means_two_days_in_any_language():
    meant = {}
    for code in LANGUAGES:
        for pattern in LANGUAGES[code].patterns:
            for month in range(1, 13):
                for day in (1, 2, 3, 11, 12, 28):
                    example = write(datetime.date(2011, month, day), code, pattern)
                    target = example.targets[0]
                    assert meant.setdefault(example.source, target) == target


def test_patterns_that_can_be_read_in_two_ways_are_refused():
    kept = ["d MMMM y", "EEEE, d 'de' MMMM y", "y/M/d", "y-MM-dd", "d LLL y", "y年M月d日"]
    left = ["d/M/y", "M/d/y", "dd.MM.yy", "d MMM yy", "MMMM y", "y/d/M", "d MMMM G y", "d M M y"]
    assert all(has_one_reading(pattern) for pattern in kept)
    assert not any(has_one_reading(pattern) for pattern in left)


def test_native_digits_are_written_where_people_use_them():
    assert "٢٠٢٤" in write(DAY, "ar", "d MMMM y", zero="٠").source
    assert "२०२४" in write(DAY, "hi", "d MMMM y", zero="०").source
    drawn = "".join(example.source for example in dates("train", 300, languages=["ar", "hi"]))
    assert {"٣", "३", "3"} <= set(drawn)


def test_a_day_of_one_split_is_in_no_other_in_any_language():
    days = {split: set() for split in ("train", "valid", "test")}
    groups = set()
    for split, found in days.items():
        for seed in (0, 1):
            for example in dates(split, 100, seed=seed, first_year=2011, last_year=2012):
                found.add(example.targets[0])
                groups.add(example.group)
    assert not days["train"] & days["test"]
    assert not days["train"] & days["valid"]
    assert not days["valid"] & days["test"]
    assert groups == set(LANGUAGES)


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="expected 1000 <= first_year <= last_year <= 9999, got"):
        dates("train", 1, first_year=2001, last_year=2000)
    with pytest.raises(SettingError, match="languages is empty; name at least one"):
        dates("train", 1, languages=[])
    with pytest.raises(UnknownChoice, match="no 'xx' here"):
        dates("train", 1, languages=["xx"])
