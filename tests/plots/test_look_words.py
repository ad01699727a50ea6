"""Coloured words: the strongest word has the strongest colour, and without colours the numbers."""

import io
import re
from dataclasses import replace

import pytest
from rich.color import Color
from rich.console import Console

from regard.errors import LengthError
from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.token_labels import Tokens
from regard.plots import coloured_words, plain_words, print_words, terminal_words
from regard.plots.colours import DARK, LIGHT, colour, ink, luminance
from regard.plots.page import STYLE
from tests.inspecting.hand_made import tokens, written_down

WEIGHTS = [[0.0, 0.1, 0.9], [0.8, 0.15, 0.05]]


def _record(weights=WEIGHTS, keys=("red", "big", "dog")):
    return written_down([weights], queries=tokens("chien", "rouge"), keys=tokens(*keys))


def _console(**settings):
    return Console(file=io.StringIO(), width=100, force_terminal=True, _environ={}, **settings)


def _shades(record, view=OVERVIEW):
    """The background of every word of every row, by the words."""
    console = _console(color_system="truecolor")
    rows = {}
    for line in console.render_lines(coloured_words(record, view), console.options):
        said = [(part.text, part.style.bgcolor if part.style else None) for part in line]
        name, *cells = [part for part in said if part[0].strip()] or [("", None)]
        rows.setdefault(name[0].strip(), dict(cells))
    return rows


def test_the_largest_weight_has_the_last_colour_and_none_has_no_colour():
    rows = _shades(_record())
    assert rows["chien"]["dog"] == Color.from_rgb(*colour(DARK, 1.0))
    assert rows["rouge"]["red"] == Color.from_rgb(*colour(DARK, 0.8 / 0.9))
    assert rows["chien"].get("red") is None


def test_more_weight_is_a_brighter_word_on_a_dark_ground():
    row = _shades(_record([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]))["chien"]
    bright = [luminance(tuple(row[word].triplet)) for word in ("red", "big", "dog")]
    assert bright == sorted(bright)
    assert len(set(bright)) == 3


@pytest.mark.parametrize(("ramp", "is_rising"), [(LIGHT, False), (DARK, True)])
def test_a_ramp_never_turns_back_and_its_ink_can_be_read(ramp, is_rising):
    steps = [colour(ramp, share / 100) for share in range(101)]
    lights = [luminance(step) for step in steps]
    assert lights == sorted(lights, reverse=not is_rising)
    for step, light in zip(steps, lights, strict=True):
        contrast = sorted([light + 0.05, luminance(ink(step)) + 0.05])
        assert contrast[1] / contrast[0] >= 4.5


def test_zero_looks_like_the_page():
    assert (LIGHT[0], DARK[0]) == ("#ffffff", "#16181b")
    assert re.findall(r"--ground: (#\w+);", STYLE) == ["#fff", DARK[0], DARK[0]]


def test_without_colours_the_heaviest_words_come_with_their_numbers(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    print_words(_record(), console=Console(file=out, force_terminal=True))
    said = out.getvalue()
    assert "\x1b" not in said
    assert "chien ← dog 0.90 · big 0.10 · red 0.00\n" in said
    assert said.endswith("strongest: chien ← dog 0.90 · rouge ← red 0.80\n")


def test_words_that_stand_twice_are_told_apart_by_their_place():
    lines = plain_words(_record(keys=("red", "dog", "red"))).splitlines()
    assert "chien ← red (3) 0.90 · dog 0.10 · red (1) 0.00" in lines
    assert lines[-1].startswith("strongest: chien ← red (3) 0.90")


def test_what_answers_nothing_has_no_arrow():
    record = replace(_record(), source="a cat", target="")
    assert plain_words(record).splitlines()[0] == "a cat"


def test_a_file_gets_no_colours_either():
    out = io.StringIO()
    print_words(_record(), console=Console(file=out))
    assert out.getvalue() == plain_words(_record()) + "\n"


def test_a_terminal_gets_colours_and_the_same_strongest_links():
    console = _console(color_system="256")
    print_words(_record(), console=console)
    said = console.file.getvalue()
    assert "\x1b[" in said
    assert "strongest: chien ← dog 0.90 · rouge ← red 0.80" in said


def test_a_light_terminal_gets_the_light_colours(monkeypatch):
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert terminal_words.ramp_of_terminal() is LIGHT
    monkeypatch.setenv("COLORFGBG", "15;0")
    assert terminal_words.ramp_of_terminal() is DARK


def test_what_is_left_out_is_counted():
    record = _record([[0.4, 0.3, 0.2, 0.1], [0.25] * 4], keys=("a", "b", "c", "d"))
    assert "chien ← a 0.40 · b 0.30 · c 0.20 · others 0.10" in plain_words(record)


def test_markup_and_escapes_in_tokens_are_only_text():
    pieces = ("[bold]x[/bold]", "\x1b[31m", ":dog:")
    keys = Tokens.of("".join(pieces), [(pieces[0], (0, 14)), (pieces[1], (14, 19)),
                                       (pieces[2], (19, 24))])  # fmt: skip
    record = written_down([WEIGHTS], queries=tokens("chien", "rouge"), keys=keys)
    view = View(unit="pieces")
    assert "\x1b" not in plain_words(record, view)
    assert "[bold]x[/bold] 0.80" in plain_words(record, view)
    assert ":dog: 0.90" in plain_words(record, view)
    console = _console(color_system="truecolor")
    print_words(record, view, console=console)
    assert "\x1b[31m" not in console.file.getvalue()


def test_too_long_to_print_is_said_with_a_way_out(monkeypatch):
    monkeypatch.setattr(terminal_words, "MAX_PRINTED_WORDS", 5)
    for show in (plain_words, coloured_words):
        with pytest.raises(LengthError, match=r"2 × 3 words are too many to print.*--out x\.html"):
            show(_record())
