"""CIDEr-D is the paper's equation, with the field's counts."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.evaluating.cider import measured_cider_d
from tests.oracles import cider as oracle

WORDS = ["a", "dog", "cat", "runs", "sits", "on", "the", "grass", "mat", "red", "blue"]
PICTURES = [["a b"], ["a c"]]


def cider_d(*texts):
    return measured_cider_d(*texts).score


def _corpus(seed, count=7):
    drawn = random.Random(seed)

    def say():
        return " ".join(drawn.choices(WORDS, k=drawn.randint(0, 9)))

    return [say() for _ in range(count)], [
        [say() for _ in range(drawn.randint(1, 5))] for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_it_is_its_equation(seed):
    hypotheses, references = _corpus(seed)
    assert cider_d(hypotheses, references).value == pytest.approx(
        oracle.cider_d(hypotheses, references)
    )


def _first(hypothesis):
    """What the first of the two pictures earns; the second is answered by nothing."""
    return 2 * cider_d([hypothesis, ""], PICTURES).value


@pytest.mark.parametrize(
    ("hypothesis", "wanted"),
    [
        # b and "a b" are each in one of two pictures; there are no 3-grams and no 4-grams
        ("a b", 5.0),
        # a is in both pictures and tells nothing
        ("a", 0.0),
        # one word short of the reference
        ("b", 2.5 * math.exp(-1 / 72)),
        # b twice: clipping halves what the cosine does not mind
        ("b b", 1.25),
        # three words too many, and each of them an n-gram that no reference has
        ("x y z", 0.0),
    ],
)
def test_two_pictures_by_hand(hypothesis, wanted):
    assert _first(hypothesis) == pytest.approx(wanted)


def test_several_references_are_averaged():
    references = [["a b", "q r"], ["a c"]]
    assert 2 * cider_d(["a b", ""], references).value == pytest.approx(2.5)


def test_a_wrong_word_lowers_the_cosine_by_its_weight():
    # |I| = 2: b weighs ln 2, and so does x, which no reference has
    assert _first("b x") == pytest.approx(2.5 / math.sqrt(2))


texts = st.lists(st.sampled_from(WORDS), min_size=4, max_size=8).map(" ".join)


@settings(max_examples=30)
@given(texts, texts, st.lists(st.lists(texts, min_size=1, max_size=2), min_size=2, max_size=4))
def test_nothing_beats_the_only_reference(own, other, rest):
    same, different = (
        measured_cider_d([text, *("" for _ in rest)], [[own], *rest]).by_sentence()[0]
        for text in (own, other)
    )
    assert 0 <= different <= same + 1e-9 <= 10 + 2e-9


def test_saying_what_people_said_of_different_pictures_scores_ten():
    said = ["a dog runs on grass", "two men play old chess"]
    assert cider_d(said, [[text] for text in said]).value == pytest.approx(10)


def test_a_caption_that_shares_no_word_scores_nothing():
    assert cider_d(["x y z q", "x"], [["a b c d"], ["c d"]]).value == 0


def test_the_score_of_the_corpus_is_the_mean_over_captions():
    hypotheses, references = _corpus(11)
    measured = measured_cider_d(hypotheses, references)
    assert measured.score == cider_d(hypotheses, references)
    assert measured.score.value == pytest.approx(sum(measured.by_sentence()) / len(hypotheses))
    assert measured.of([2]) == measured.by_sentence()[2]


def test_the_signature_says_how_words_were_read():
    got = cider_d(["A dog .", "a"], [["a dog"], ["a cat", "the cat"]])
    assert got.name == "CIDEr-D"
    assert got.signature == (
        "nrefs:var|case:lc|tok:13a-nopunct|stem:no|ngrams:1-4|idf:2|scale:10|sigma:6|clip:yes"
    )


def test_case_and_full_stops_do_not_count():
    assert 2 * cider_d(["A Dog runs .", "b"], [["a dog runs"], ["c"]]).value == pytest.approx(7.5)


def test_chinese_is_split_by_characters():
    got = cider_d(["一只大狗。", "猫"], [["一只大狗"], ["猫"]])
    assert "tok:zh-nopunct" in got.signature
    assert got.value == pytest.approx((10 + 2.5) / 2)


def test_one_picture_has_no_rare_words_and_the_score_says_so():
    got = cider_d(["a dog"], [["a dog"]])
    assert got.value == 0
    assert got.note == "one picture tells no rare word from a common one: the score is always 0"


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ShapeError, match=r"cider_d: .* got 1 and 2"):
        cider_d(["a"], [["a"], ["b"]])
