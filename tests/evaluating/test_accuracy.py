"""Exact match, exact match by group, and token accuracy: place by place, several references."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.evaluating.accuracy import (
    Share,
    exact_by_group,
    exact_match,
    measured_token_accuracy,
)

TAGS = st.lists(st.sampled_from("ABC"), max_size=5).map(" ".join)


def token_accuracy(hypotheses, references):
    return measured_token_accuracy(hypotheses, references).score.value / 100


def test_any_of_several_references_will_do():
    assert exact_match(["a", "b", "c"], [["x", "a"], ["b"], ["C"]]) == pytest.approx(2 / 3)


def test_unequal_counts_are_refused():
    with pytest.raises(ShapeError, match="got 1 and 2"):
        exact_match(["a"], [["a"], ["b"]])


def test_groups_add_up_to_the_whole():
    groups = ["fr", "de", "fr", "el", "de", "de"]
    hypotheses = ["1", "2", "3", "4", "5", "6"]
    references = [["1"], ["0"], ["9", "3"], ["4"], ["5"], ["7"]]
    found = exact_by_group(groups, hypotheses, references)
    assert found == {"de": Share(1, 3), "el": Share(1, 1), "fr": Share(2, 2)}
    assert sum(found.values(), Share()).value == exact_match(hypotheses, references)


def test_only_what_is_all_right_is_called_a_hundred_per_cent():
    assert str(Share(1999, 2000)) == "99.9 %"
    assert str(Share(2000, 2000)) == str(Share()) == "100.0 %"
    assert str(Share(2, 3)) == "66.6 %"


def test_a_group_is_needed_for_each_sentence():
    with pytest.raises(ShapeError, match="expected one group a sentence, got 1 for 2 sentences"):
        exact_by_group(["de"], ["1", "2"], [["1"], ["2"]])


def test_tags_are_compared_place_by_place():
    assert token_accuracy(["A B C"], [["A C C"]]) == pytest.approx(2 / 3)
    assert token_accuracy(["B C A"], [["A B C"]]) == 0


def test_a_place_that_one_side_lacks_is_wrong():
    assert token_accuracy(["A B"], [["A B C D"]]) == 0.5
    assert token_accuracy(["A B C D"], [["A B"]]) == 0.5
    assert token_accuracy([""], [["A"]]) == 0
    assert token_accuracy([""], [[""]]) == 1


def test_sentences_count_by_their_length():
    measured = measured_token_accuracy(["A", "B B B"], [["A"], ["A A A"]])
    assert measured.score.value == 25
    assert measured.by_sentence() == [100, 0]
    assert measured.of([0]) == 100
    assert measured.score.signature == "nrefs:1|case:mixed|tok:spaces|percent"


def test_of_several_references_the_one_that_agrees_most_counts():
    assert token_accuracy(["A B"], [["C C", "A B", "A"]]) == 1
    # one of one is better than two of three
    assert measured_token_accuracy(["A"], [["A B C", "A"]]).rows.tolist() == [[1, 1]]


@given(TAGS, TAGS)
def test_it_is_a_share_and_the_same_from_either_side(one, other):
    there = token_accuracy([one], [[other]])
    assert 0 <= there <= 1
    assert there == token_accuracy([other], [[one]])
    assert (there == 1) == (one == other)


def test_texts_that_do_not_pair_up_are_refused():
    with pytest.raises(ShapeError, match="token_accuracy: expected as many hypotheses"):
        token_accuracy(["A"], [])
