"""Scores are sacreBLEU's, with its signatures, and the right tokeniser for the text."""

import math

import pytest
import sacrebleu

from regard.errors import MissingExtra, SettingError, ShapeError, UnknownChoice
from regard.evaluating import (
    MetricScore,
    bleu,
    chrf,
    length_ratio,
    loss_and_perplexity,
    score_all,
    ter,
)
from regard.evaluating import tokenizers as chosen
from regard.evaluating.metrics import RESAMPLED_METRICS
from regard.evaluating.tokenizers import tokenizer_for

HYPOTHESES = ["the cat sat on the mat .", "dogs bark", "he went home"]
REFERENCES = [
    ["the cat sat on a mat .", "a cat was on the mat ."],
    ["the dogs bark loudly"],
    ["he went home", "he left", "home he went"],
]
STREAMS = [
    [REFERENCES[line][number] if number < len(REFERENCES[line]) else None for line in range(3)]
    for number in range(3)
]


def test_bleu_by_hand():
    # one reference: 5 of 6 words, 3 of 5 pairs, 2 of 4 threes, 1 of 3 fours; equal lengths
    by_hand = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    got = bleu(["a cat sat on the mat"], [["a cat sat on a mat"]])
    assert got.value == pytest.approx(by_hand)


def test_a_short_answer_pays_the_brevity_penalty():
    got = bleu(["a b c d"], [["a b c d e f"]])
    assert got.value == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_bleu_with_uneven_references_is_sacrebleu_s():
    got = bleu(HYPOTHESES, REFERENCES)
    assert got.value == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, STREAMS).score)
    version = sacrebleu.__version__
    assert got.signature == f"nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"


def test_chrf_and_ter_are_sacrebleu_s():
    assert chrf(HYPOTHESES, REFERENCES).value == pytest.approx(
        sacrebleu.corpus_chrf(HYPOTHESES, STREAMS).score
    )
    assert ter(HYPOTHESES, REFERENCES).value == pytest.approx(
        sacrebleu.corpus_ter(HYPOTHESES, STREAMS).score
    )
    assert "nc:6|nw:0" in chrf(HYPOTHESES, REFERENCES).signature


def test_ter_by_hand():
    assert ter(["a x c"], [["a b c d"]]).value == pytest.approx(100 * 2 / 4)


def test_the_counts_of_the_sentences_make_the_score_of_the_corpus():
    public = {"BLEU": bleu, "chrF2": chrf, "TER": ter}
    for name, score in public.items():
        measured = RESAMPLED_METRICS[name](HYPOTHESES, REFERENCES, None)
        assert measured.score == score(HYPOTHESES, REFERENCES)
        assert measured.of([1]) == pytest.approx(score(HYPOTHESES[1:2], REFERENCES[1:2]).value)
        assert measured.by_sentence()[1] == measured.of([1])


def test_all_scores_come_in_order_and_exact_match_in_per_cent():
    scores = score_all(HYPOTHESES, REFERENCES)
    names = [score.name for score in scores]
    assert names == ["BLEU", "chrF2", "TER", "exact match", "length ratio"]
    assert scores[3].value == pytest.approx(100 / 3)
    assert scores[3].signature == "nrefs:var|case:mixed|percent"
    assert scores[0] == bleu(HYPOTHESES, REFERENCES)
    assert scores[4] == length_ratio(HYPOTHESES, REFERENCES)


def test_the_length_ratio_counts_words_against_the_closest_reference():
    got = length_ratio(["a b c", "a."], [["a b c d", "a"], ["a b c d"]])
    assert got.value == pytest.approx(5 / 8)
    assert "tok:13a" in got.signature


def test_perfect_answers_score_perfectly():
    values = [score.value for score in score_all(["a b c d e"] * 2, [["a b c d e"]] * 2)]
    assert values == pytest.approx([100, 100, 0, 100, 1])


def test_chinese_is_scored_by_characters_and_its_edits_too():
    hypothesis, reference = "我爱一只大猫。", "我爱一只小猫。"
    got = bleu([hypothesis], [[reference]])
    assert "tok:zh" in got.signature
    assert got.value == pytest.approx(sacrebleu.corpus_bleu([hypothesis], [[reference]],
                                                            tokenize="zh").score)  # fmt: skip
    assert ter([hypothesis], [[reference]]).value == pytest.approx(100 / 7)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ein Mann reitet.", "13a"),
        ("Мужчина едет на лошади.", "13a"),
        ("남자가 말을 탄다.", "13a"),
        ("一个男人骑着马。", "zh"),
        ("他在 Google 工作。", "zh"),
        ("The sign says 北京.", "13a"),
        ("ผู้ชายขี่ม้า", "char"),
        ("2029-05-09", "13a"),
        ("", "13a"),
    ],
)
def test_the_script_of_the_references_chooses_the_tokeniser(text, name):
    assert tokenizer_for([[text]]).name == name


def test_japanese_without_mecab_is_scored_by_characters_and_says_so(monkeypatch):
    monkeypatch.setattr(chosen, "find_spec", lambda name: None)
    got = bleu(["男は馬に乗る。"], [["男が馬に乗る。"]])
    assert "tok:char" in got.signature
    assert "because MeCab is not installed; for words run pip install 'sacrebleu[ja]'" in got.note
    assert got.note in str(got)


def test_japanese_with_mecab_is_scored_by_words(monkeypatch):
    monkeypatch.setattr(chosen, "find_spec", lambda name: object())
    assert tokenizer_for([["男が馬に乗る。"]]) == chosen.Tokenizer("ja-mecab")


def test_a_tokeniser_that_is_not_installed_is_an_error_that_names_the_remedy(monkeypatch):
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(MissingExtra, match=r"'ja-mecab' needs MeCab.*sacrebleu\[ja\]"):
        bleu(["a"], [["a"]], tokenizer="ja-mecab")


def test_an_unknown_tokeniser_is_refused():
    with pytest.raises(UnknownChoice, match="there is no 'moses'; choose one of 13a, intl, zh"):
        bleu(["a"], [["a"]], tokenizer="moses")


def test_tokenised_text_is_noticed():
    note = bleu(["it is ."] * 100, [["it is."]] * 100).note
    assert note == "100 hypotheses end in a lone full stop: score detokenised text"
    assert bleu(["it is ."] * 99, [["it is."]] * 99).note == ""


@pytest.mark.parametrize("score", [bleu, chrf, ter, length_ratio, score_all])
def test_texts_that_do_not_pair_up_are_refused(score):
    with pytest.raises(ShapeError, match="got 1 and 2"):
        score(["a"], [["a"], ["b"]])
    with pytest.raises(ShapeError, match="got 0 and 0"):
        score([], [])
    with pytest.raises(ShapeError, match="sentence 2 has no reference"):
        score(["a", "b"], [["a"], []])
    with pytest.raises(ShapeError, match=r"one text, 'abc'.*Write \['abc'\]"):
        score(["abc"], ["abc"])


def test_an_empty_answer_scores_nothing_and_does_not_break():
    values = {score.name: score.value for score in score_all([""], [["a b"]])}
    assert values["BLEU"] == values["chrF2"] == values["length ratio"] == 0
    assert values["TER"] == 100


def test_loss_and_perplexity_are_per_token():
    loss, perplexity = loss_and_perplexity(30 * math.log(5), 30)
    assert loss.value == pytest.approx(math.log(5))
    assert perplexity.value == pytest.approx(5)
    assert perplexity.signature == "per:sub-word|tokens:30"
    with pytest.raises(SettingError, match="at least one token, got 0"):
        loss_and_perplexity(1.0, 0)


def test_a_score_prints_with_its_signature():
    assert str(MetricScore("BLEU", 12.345, "tok:13a")) == "BLEU 12.35 (tok:13a)"
