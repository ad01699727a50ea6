"""Exact match counts answers that are right to the letter."""

import pytest

from regard.errors import ShapeError
from regard.evaluating import exact_match


def test_any_of_several_references_will_do():
    assert exact_match(["a", "b", "c"], [["x", "a"], ["b"], ["C"]]) == pytest.approx(2 / 3)


def test_unequal_counts_are_refused():
    with pytest.raises(ShapeError, match="got 1 and 2"):
        exact_match(["a"], [["a"], ["b"]])
