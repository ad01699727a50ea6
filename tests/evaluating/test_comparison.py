"""A comparison says what differs and where, and its text and its page say the same."""

import json
import re
from dataclasses import asdict

import pytest

from regard.errors import ShapeError
from regard.evaluating import Resampling, bleu, compare
from regard.evaluating.accuracy import measured_exact_match
from regard.evaluating.comparison import by_frequency, by_length
from regard.plots.charts import Whisker, bars, ticks, whiskers
from regard.plots.comparison import comparison_page, comparison_text

REFERENCES = [[f"a b c d{n} e f"] for n in range(12)] + [["x y z w"]] * 8
SYSTEMS = {
    "plain": ["a b c q e f"] * 12 + ["x y z w"] * 8,
    "<rotary> & co": [f"a b c d{n} e f" for n in range(12)] + ["x z w"] * 8,
    "same": ["a b c q e f"] * 12 + ["x y z w"] * 8,
}
SOURCES = [f"quelle {n} <b>" for n in range(20)]
QUICK = Resampling(samples=50, trials=100)


@pytest.fixture(scope="module")
def comparison():
    return compare(
        SYSTEMS, REFERENCES, sources=SOURCES, training=["a b c", "a"], resampling=QUICK, shown=4
    )


def test_scores_are_those_of_each_system_alone(comparison):
    for system in comparison.systems:
        assert system.scores[0] == bleu(SYSTEMS[system.name], REFERENCES)
        assert system.intervals[0].low <= system.scores[0].value <= system.intervals[0].high


def test_every_system_is_tested_against_the_first(comparison):
    assert comparison.baseline == "plain"
    assert [versus.name for versus in comparison.versus] == ["<rotary> & co", "same"]
    assert all(one.p_randomisation == 1 for one in comparison.versus[1].differences)
    assert [one.name for one in comparison.versus[0].differences] == [
        "BLEU", "chrF2", "TER", "exact match",
    ]  # fmt: skip


def test_systems_that_score_the_same_are_said_to_be_equal(comparison):
    text, page = comparison_text(comparison), comparison_page(comparison)
    told = text.split("same against plain\n")[1].split("\n\n")[0].splitlines()[1:]
    assert len(told) == 4
    assert all(re.fullmatch(r"[\w ]+ 0\.00 +none +equal", line) for line in told)
    assert "+0.00" not in text
    assert page.count(">equal<") == 4


def test_sentences_that_differ_most_come_first_and_equal_ones_not_at_all(comparison):
    spreads = [sentence.spread for sentence in comparison.most_different]
    assert spreads == sorted(spreads, reverse=True)
    assert len(spreads) == 4
    first = comparison.most_different[0]
    assert first.texts[0] == SYSTEMS["plain"][first.line - 1]
    assert first.source == SOURCES[first.line - 1]
    alike = dict.fromkeys("ab", SYSTEMS["plain"])
    assert compare(alike, REFERENCES, resampling=QUICK).most_different == ()


def test_length_classes_hold_every_sentence_once_and_score_it():
    lengths = [3, 1, 2, 2, 2, 9, 9, 4]
    right = [True, False, True, True, False, False, True, True]
    measured = measured_exact_match(["r" if is_right else "x" for is_right in right], [["r"]] * 8)
    found = by_length([measured], lengths, buckets=3)
    assert [bucket.label for bucket in found] == ["1–2", "3", "4–9"]
    assert [bucket.count for bucket in found] == [4, 1, 3]
    assert [bucket.values for bucket in found] == [(50.0,), (100.0,), (pytest.approx(200 / 3),)]


def test_one_length_is_one_class():
    measured = measured_exact_match(["a", "b"], [["a"], ["a"]])
    assert [b.label for b in by_length([measured], [5, 5])] == ["5"]
    with pytest.raises(ShapeError, match=r"got 3 lengths for \[2\] sentences"):
        by_length([measured], [1, 2, 3])


def test_rare_words_by_hand():
    # "rare" was seen once: said twice, wanted once, right once; "new" was never seen and is missed
    systems = [[["common", "rare", "rare"]]]
    found = by_frequency(systems, [[["common", "rare", "new"]]], {"common": 500, "rare": 1})
    assert {b.label: (b.count, b.values) for b in found} == {
        "0": (1, (0.0,)),
        "1": (1, (pytest.approx(100 * 2 * 1 / (2 + 1)),)),
        "100–999": (1, (100.0,)),
    }


def test_of_several_references_the_closest_tells_which_words_are_right():
    found = by_frequency([[["a", "b"]]], [[["x", "y", "z"], ["a", "b"]]], {})
    assert [(b.label, b.values) for b in found] == [("0", (100.0,))]


def test_a_comparison_is_json(comparison):
    back = json.loads(json.dumps(asdict(comparison)))
    assert back["systems"][0]["scores"][0]["value"] == comparison.systems[0].scores[0].value


def test_text_and_page_show_the_same_numbers(comparison):
    text, page = comparison_text(comparison), comparison_page(comparison)
    for versus in comparison.versus[:1]:
        for one in versus.differences:
            for said in (f"{one.value:+.2f}", f"{one.p_randomisation:.4f}"):
                assert said in text
                assert said in page
    assert comparison.systems[0].scores[0].signature in text
    assert comparison.systems[0].scores[0].signature in page
    for title in ("BLEU by length of source", "BLEU by length of reference", "F1 of words"):
        assert title in text
        assert title in page


def test_the_verdict_needs_both_tests(comparison):
    near = {"plain": SYSTEMS["plain"], "near": ["a b c d0 e f", *SYSTEMS["plain"][1:]]}
    for found, is_sure in (
        (comparison, True),
        (compare(near, REFERENCES, resampling=QUICK), False),
    ):
        rows = [line for line in comparison_text(found).splitlines() if line.startswith("BLEU  ")]
        assert rows[0].endswith("no sure difference") != is_sure


def test_the_columns_of_the_text_stand_below_each_other_in_chinese_too():
    systems = {"基线": ["我爱猫"] * 3, "second": ["我爱狗", "我爱猫", "我爱狗"]}
    text = comparison_text(compare(systems, [["我爱狗"]] * 3, resampling=QUICK))
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("system"))
    column = lines[head].index("BLEU")
    assert lines[head + 1][column - 2 :][0].isdigit()
    assert lines[head + 2][column:][0].isdigit()


def test_the_page_asks_nothing_of_the_network_and_escapes_every_text(comparison):
    page = comparison_page(comparison)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|@import|url\(|https?://", page)
    assert "<rotary>" not in page
    assert re.search(r"quelle \d+ &lt;b&gt;", page)
    assert "prefers-color-scheme: dark" in page


def test_the_page_marks_words_that_the_reference_lacks_and_gaps(comparison):
    systems = {"one": ["a b c d", "k l m"], "two": ["a x c d", "k m"]}
    found = compare(systems, [["a b c d"], ["k l m"]], resampling=QUICK)
    page = comparison_page(found)
    assert "a <mark>x</mark> c d" in page
    assert 'k <mark title="l">‸</mark>m' in page


def test_without_source_or_training_those_parts_are_left_out():
    found = compare({"a": ["x y"], "b": ["x z"]}, [["x y"]], resampling=QUICK)
    assert found.by_source_length == found.by_frequency == ()
    assert "length of source" not in comparison_page(found)
    assert "F1 of words" not in comparison_text(found)


def test_a_comparison_that_makes_no_sense_is_refused():
    with pytest.raises(ShapeError, match="at least two systems, got 1"):
        compare({"a": ["x"]}, [["x"]])
    with pytest.raises(ShapeError, match=r"compare: b: expected as many .* got 2 and 1"):
        compare({"a": ["x"], "b": ["x", "y"]}, [["x"]])
    with pytest.raises(ShapeError, match="a source for each of 1 sentences, got 2"):
        compare({"a": ["x"], "b": ["y"]}, [["x"]], sources=["q", "r"])


def test_bars_are_as_tall_as_their_values():
    drawn = bars(["g"], {"one": [10.0], "two": [5.0]}, title="t", x_title="x")
    tall = [float(height) for height in re.findall(r'<rect [^>]*height="([\d.]+)"', drawn)]
    assert tall[0] == pytest.approx(2 * tall[1], abs=0.1)
    assert "one, g: 10.00" in drawn


def test_a_whisker_stands_on_its_side_of_zero():
    drawn = whiskers([Whisker("s", 2.0, 1.0, 3.0)], title="t", x_title="x")
    zero = float(re.search(r'dasharray[^>]* x1="([\d.]+)" x2="\1" y1="12"', drawn)[1])
    dot = float(re.search(r'cx="([\d.]+)"', drawn)[1])
    assert dot > zero


def test_ticks_are_round_and_within():
    for low, high in [(0.0, 68.6), (-0.7, 15.7), (0.0, 1e-3), (-5.0, -1.0), (3.0, 3.0)]:
        found = ticks(low, high)
        assert all(low <= tick <= high for tick in found)
        assert len(found) <= 7
