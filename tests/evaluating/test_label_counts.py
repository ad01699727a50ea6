"""Precision, recall, F1 and the counts of label pairs, against counting by hand."""

import random

import pytest

from regard.errors import ShapeError
from regard.evaluating.label_counts import NOTHING, LabelCounts


def by_hand(pairs, label):
    right = sum(wanted == answered == label for wanted, answered in pairs)
    answered = sum(one == label for _, one in pairs)
    wanted = sum(one == label for one, _ in pairs)
    precision = right / answered if answered else 0.0
    recall = right / wanted if wanted else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return 100 * precision, 100 * recall, 100 * f1, wanted


def test_scores_of_each_label_are_those_counted_by_hand():
    draws = random.Random(0)
    texts = [[draws.choice("abcd") for _ in range(draws.randint(1, 9))] for _ in range(60)]
    answers = [[draws.choice([one, one, *"abce"]) for one in text] for text in texts]
    pairs = [p for w, a in zip(texts, answers, strict=True) for p in zip(w, a, strict=True)]
    found = LabelCounts.of([" ".join(a) for a in answers], [[" ".join(w)] for w in texts])
    assert found.labels == tuple("abcde")
    for one in found.by_label():
        wanted = by_hand(pairs, one.label)
        assert (one.precision, one.recall, one.f1, one.count) == pytest.approx(wanted)
    means = [sum(by_hand(pairs, label)[i] for label in "abcde") / 5 for i in range(3)]
    assert [score.value for score in found.scores()] == pytest.approx(means)
    assert [score.name for score in found.scores()] == ["precision", "recall", "F1"]
    assert found.scores()[0].signature.startswith("labels:5|average:macro|")
    assert found.counts.sum() == len(pairs)


def test_right_answers_score_a_hundred():
    found = LabelCounts.of(["a b", "b"], [["a b"], ["b"]])
    assert [score.value for score in found.scores()] == [100.0, 100.0, 100.0]


def test_a_place_that_one_text_lacks_is_met_by_nothing():
    found = LabelCounts.of(["a", "b b"], [["a a"], ["b"]])
    assert found.labels == (NOTHING, "a", "b")
    assert found.counts.tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 1]]
    assert [one.label for one in found.by_label()] == ["a", "b"]


def test_the_table_shows_every_pair_of_a_few_labels():
    table = str(LabelCounts.of(["a b a", "c"], [["a b b"], ["a"]])).splitlines()
    assert table[0].split() == ["label", "precision", "recall", "F1", "count", "1", "2", "3"]
    assert table[1].split() == ["1", "a", "50.0", "50.0", "50.0", "2", "1", "·", "1"]
    assert table[2].split() == ["2", "b", "100.0", "50.0", "66.7", "2", "1", "1", "·"]


def test_the_table_of_many_labels_tells_what_was_mistaken_most():
    names = [f"l{i:02}" for i in range(30)]
    texts = [" ".join(names), "l01 l01"]
    found = str(LabelCounts.of(texts, [[" ".join(names)], ["l02 l02"]])).splitlines()
    assert len(found[0].split()) == 5
    assert found[-1] == "l02 answered as l01: 2 times"


def test_several_references_are_refused():
    with pytest.raises(ShapeError, match="expected one reference a text, got several"):
        LabelCounts.of(["a"], [["a", "b"]])
