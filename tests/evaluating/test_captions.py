"""Captions are scored by four orders of BLEU, read as the field reads them."""

import math

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import ShapeError
from regard.evaluating import exact_match
from regard.evaluating.cider import measured_cider_d
from regard.evaluating.metrics import score_captions
from regard.evaluating.sacrebleu_metrics import measured_bleu_orders, words
from regard.evaluating.tokenizers import is_punctuation

SAID = ["A Dog runs on the grass .", "two men play chess", "a red ball"]
REFERENCES = [
    ["a dog runs on grass", "A brown dog is running ."],
    ["Two men , who are old , play chess ."],
    ["a red ball", "the red ball lies there", "A ball ."],
]
PLAIN = ["a dog runs on the grass", "two men play chess", "a red ball"]
PLAIN_STREAMS = [
    ["a dog runs on grass", "two men who are old play chess", "a red ball"],
    ["a brown dog is running", None, "the red ball lies there"],
    [None, None, "a ball"],
]
VERSION = sacrebleu.__version__


def bleu_orders(*texts):
    return tuple(one.score for one in measured_bleu_orders(*texts))


def _values(scores):
    return [score.value for score in scores]


def test_the_orders_by_hand():
    # 4 of 5 words, 2 of 4 pairs, 1 of 3 threes; no four, so half of one of 2 is counted
    got = bleu_orders(["a dog runs on grass"], [["a dog runs in grass"]])
    parts = [4 / 5, 2 / 4, 1 / 3, 1 / 4]
    by_hand = [100 * math.prod(parts[:n]) ** (1 / n) for n in (1, 2, 3, 4)]
    assert _values(got) == pytest.approx(by_hand)
    assert [score.name for score in got] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]


def test_captions_are_scored_as_by_sacrebleu_on_plain_words():
    want = [
        BLEU(max_ngram_order=n, tokenize="none").corpus_score(PLAIN, PLAIN_STREAMS).score
        for n in (1, 2, 3, 4)
    ]
    assert _values(bleu_orders(SAID, REFERENCES)) == pytest.approx(want)


def test_the_signature_says_that_punctuation_was_dropped():
    got = bleu_orders(SAID, REFERENCES)[0].signature
    assert got == f"nrefs:var|case:lc|eff:no|tok:13a-nopunct|smooth:exp|version:{VERSION}"


def test_short_captions_are_told_what_they_would_score_without_the_penalty():
    penalty = math.exp(1 - 5 / 3)
    got = bleu_orders(["a dog runs"], [["a dog runs on grass"]])
    assert _values(got[:3]) == pytest.approx([100 * penalty] * 3)
    assert got[0].note == "100.00 without the brevity penalty of 0.513"
    assert bleu_orders(["a dog"], [["a dog"]])[0].note == ""
    assert bleu_orders([""], [["a dog"]])[0].note == ""
    assert bleu_orders(["a"], [["a " * 2000]])[0].note == ""


def test_the_counts_of_the_captions_make_the_score_of_the_corpus():
    for number, measured in enumerate(measured_bleu_orders(SAID, REFERENCES)):
        assert measured.score == bleu_orders(SAID, REFERENCES)[number]
        alone = bleu_orders(SAID[1:2], REFERENCES[1:2])[number].value
        assert measured.of([1]) == pytest.approx(alone)


def test_all_scores_of_captions_come_in_order():
    scores = {score.name: score for score in score_captions(SAID, REFERENCES)}
    assert list(scores) == [
        "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "CIDEr-D", "chrF2", "exact match", "length ratio",
    ]  # fmt: skip
    assert tuple(scores.values())[:4] == bleu_orders(SAID, REFERENCES)
    assert scores["CIDEr-D"] == measured_cider_d(SAID, REFERENCES).score
    assert scores["exact match"].value == pytest.approx(100 * exact_match(SAID, REFERENCES))
    streams = [[answers[0] for answers in REFERENCES]]
    one = score_captions(SAID, [answers[:1] for answers in REFERENCES])[5]
    assert one.value == pytest.approx(CHRF(lowercase=True).corpus_score(SAID, streams).score)
    # 13 words said; the closest references have 5, 7 and 3
    assert scores["length ratio"].value == pytest.approx(13 / 15)
    assert "tok:13a-nopunct" in scores["length ratio"].signature


def test_perfect_captions_score_perfectly():
    said = ["a dog runs on grass", "two men play old chess"]
    values = _values(score_captions(said, [[text] for text in said]))
    assert values == pytest.approx([100, 100, 100, 100, 10, 100, 100, 1])


@pytest.mark.parametrize("score", [bleu_orders, score_captions])
def test_what_cannot_be_scored_is_refused(score):
    with pytest.raises(ShapeError, match="got 1 and 2"):
        score(["a"], [["a"], ["b"]])


def test_words_of_captions_are_bare():
    text = "The man's dog - a well-fed , isn't it ?"
    cased = words([text], "13a")[0]
    assert cased == text.split()
    bare = words([text], "13a", is_bare=True)[0]
    assert bare == ["the", "man's", "dog", "a", "well-fed", "isn't", "it"]


@pytest.mark.parametrize("word", [".", "...", "--", "“", "''", "`", "(", "¿", "。"])
def test_signs_are_punctuation(word):
    assert is_punctuation(word)


@pytest.mark.parametrize("word", ["a", "7", "&", "%", "$", "dog-", "/", "©"])
def test_words_and_signs_that_are_read_aloud_are_not(word):
    assert not is_punctuation(word)
