"""Shaded words and maps: every number is there, shades follow it, and hostile names stay text."""

import re
from html import unescape

import pytest

from regard.evaluating.alignment import AlignmentCounts
from regard.evaluating.attention_links import DecoderRow, views
from regard.inspecting.panels import View
from regard.plots.colours import DARK, LIGHT
from regard.plots.head_errors import error_table
from regard.plots.shaded import LEVELS, shade_style, shaded_map, shaded_words
from tests.inspecting.hand_made import of_a_model, tokens, written_down

RECORD = written_down(
    [[[0.25, 0.75, 0.0], [0.1, 0.4, 0.5]]], queries=tokens("x", "y"), keys=tokens("a", "b", "c")
)


def test_the_largest_weight_has_the_strongest_shade_and_nothing_has_none():
    shades = re.findall(r'class="w(\d+)[^"]*" title="([\d.]+)"', shaded_words(RECORD))
    assert [float(weight) for _, weight in shades] == [0.25, 0.75, 0.0, 0.1, 0.4, 0.5]
    assert [int(level) for level, _ in shades] == [
        round(w / 0.75 * LEVELS) for w in (0.25, 0.75, 0.0, 0.1, 0.4, 0.5)
    ]
    assert ".w0" not in shade_style()
    assert f".w{LEVELS} {{ background: {LIGHT[-1]}; color: #ffffff; }}" in shade_style()
    assert f".w{LEVELS} {{ background: {DARK[-1]}; color: #000000; }}" in shade_style()


def test_the_heaviest_word_of_each_line_is_underlined():
    marked = re.findall(r'class="w\d+ most"[^>]*>(\w)<', shaded_words(RECORD))
    assert marked == ["b", "c"]


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_a_map_has_the_panel_s_names_and_numbers(unit):
    record, _ = of_a_model()
    view = View("cross", 1, 2, unit)
    panel, html = record.panel(view), shaded_map(record, view)
    names = [unescape(name) for name in re.findall(r"<th(?: class=.long.)?>(.*?)</th>", html)]
    assert names == ["", *panel.keys, *panel.queries]
    numbers = [float(number) for number in re.findall(r'title="([\d.]+)"', html)]
    assert numbers == pytest.approx(panel.weights.flatten().tolist(), abs=5.1e-4)
    assert panel.title in html


def test_hostile_names_stay_text():
    record = written_down(
        [[[0.3, 0.7]]], queries=tokens("<script>"), keys=tokens('"><img src=x>', "dog")
    )
    for html in (shaded_words(record), shaded_map(record)):
        assert "<script" not in html
        assert "<img" not in html


def test_the_table_of_errors_has_both_rows_of_every_head_and_marks_the_chosen():
    every = [view for row in DecoderRow for view in views(2, 3, row)]
    # the n-th view has n wrong links of a hundred
    errors = {v: AlignmentCounts(100, 0, 100, 0, 100 - n) for n, v in enumerate(every)}
    chosen = every[9 + 4]
    html = error_table(errors, chosen, caption="errors")
    cells = re.findall(r"<td>(.*?)</td>", html)
    assert [cell for cell in cells if "chosen" in cell] == ["13.0 (chosen)"]
    assert [float(cell.split()[0]) for cell in cells] == [
        0, 1, 2, 6, 3, 4, 5, 7, 9, 10, 11, 15, 12, 13, 14, 16,
    ]  # fmt: skip
    assert "next row, layer 2" in html
