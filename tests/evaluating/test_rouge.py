"""ROUGE by hand, the best of several references, and losses by length and by word."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from regard.errors import ShapeError
from regard.evaluating.comparison import by_length
from regard.evaluating.perplexity import loss_per_word, measured_loss
from regard.evaluating.rouge import ScriptTokenizer, measured_rouge


def rouge(*texts):
    return tuple(one.score for one in measured_rouge(*texts))


def f1(shared, said, wanted):
    return 200 * shared / (said + wanted)


def test_the_three_scores_are_those_counted_by_hand():
    one, two, longest = rouge(["the cat sat on a mat"], [["a cat lay on the mat"]])
    assert one.value == pytest.approx(f1(5, 6, 6))
    assert two.value == pytest.approx(f1(0, 5, 5))
    assert longest.value == pytest.approx(f1(3, 6, 6)), "cat on mat"
    assert [score.name for score in (one, two, longest)] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]


def test_words_are_stemmed_and_lower_cased():
    assert [score.value for score in rouge(["Looking cats"], [["looks CAT"]])] == [100.0] * 3


def test_of_several_references_the_best_counts_for_each_text():
    texts, references = ["a b", "c d"], [["x y", "a b"], ["c d", "x"]]
    assert rouge(texts, references)[2].value == 100.0


def test_the_score_is_the_mean_over_texts_and_says_how_it_was_made():
    measured = measured_rouge(["a b", "x y"], [["a b"], ["c d"]])
    assert measured[0].score.value == 50.0
    assert measured[0].by_sentence() == [100.0, 0.0]
    assert measured[0].of([0]) == 100.0
    assert "stem:porter" in measured[0].score.signature
    assert "nrefs:1" in measured[0].score.signature


def test_an_empty_answer_scores_nothing_and_no_text_is_refused():
    assert [score.value for score in rouge([""], [["a"]])] == [0.0] * 3
    with pytest.raises(ShapeError, match="rouge: expected as many hypotheses"):
        rouge([], [])


PLAIN = DefaultTokenizer(use_stemmer=True)


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_are_those_of_rouge_score(text):
    assert ScriptTokenizer(PLAIN).tokenize(text) == PLAIN.tokenize(text)


def test_english_sentences_are_cut_and_stemmed_as_by_rouge_score():
    text = "The cat's_owners weren't looking; 42 ponies (running) ran 3.5 miles -- generously!"
    assert ScriptTokenizer(PLAIN).tokenize(text) == PLAIN.tokenize(text)
    assert "poni" in PLAIN.tokenize(text)


@pytest.mark.parametrize(
    "text", ["Привет большой мир", "你好世界", "これは本です", "हिन्दी भाषा है", "Größe über alles"]
)
def test_a_text_in_another_script_is_like_itself(text):
    assert [score.value for score in rouge([text], [[text]])] == [100.0] * 3


def test_letters_outside_ascii_count():
    assert rouge(["über"], [["öber"]])[0].value == 0.0
    assert rouge(["ÜBER"], [["über"]])[0].value == 100.0
    assert rouge(["u\u0308ber"], [["\u00fcber"]])[0].value == 100.0, "however it is encoded"
    assert rouge(["दी"], [["दा"]])[0].value == 0.0, "a vowel sign is part of its word"


def test_chinese_is_counted_character_by_character_beside_words_of_other_scripts():
    one, two, _ = rouge(["他有 GPUs"], [["她有GPU"]])
    assert one.value == pytest.approx(f1(2, 3, 3))
    assert two.value == pytest.approx(f1(1, 2, 2))


def test_thai_letters_keep_their_marks_and_signs_are_no_words():
    assert ScriptTokenizer(PLAIN).tokenize("ที่ 5_❤\ufe0f") == ["ที่", "5"]


def test_only_references_with_foreign_letters_are_cut_otherwise_and_say_so():
    english, cafe = "a man sat down " * 20, "café"
    said = [rouge(["a man"], [[text]])[0].signature for text in (english, english + cafe)]
    assert said[0] == said[1]
    assert "tok:" not in said[0]
    foreign = rouge(["a man"], [[english + cafe * 2]])[0].signature
    assert foreign == said[0].replace("|stem:porter|", "|stem:porter|tok:unicode|")


def test_losses_are_sorted_by_length():
    measured = measured_loss([2.0, 3.0, 5.0, 3.0], [1, 1, 1, 1])
    assert measured.score.value == pytest.approx(13 / 4)
    short, long = by_length([measured], [5, 90, 91, 6], buckets=2)
    assert (short.values, long.values) == ((2.5,), (4.0,))
    with pytest.raises(ShapeError, match="same rows and at least one, got 1 and 2"):
        measured_loss([1.0], [1, 2])


def test_a_loss_per_word_does_not_ask_how_words_were_cut():
    loss, perplexity = loss_per_word(12.0, ["a b", "c"])
    assert (loss.value, perplexity.value) == (4.0, pytest.approx(math.exp(4)))
    assert loss.signature == "nats|per:word|tokens:3"
