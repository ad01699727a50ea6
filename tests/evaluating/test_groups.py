"""Exact match by group: counts that add up, and texts that must pair up."""

import pytest

from regard.errors import ShapeError
from regard.evaluating.exact_match import exact_match
from regard.evaluating.groups import Share, exact_by_group


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
