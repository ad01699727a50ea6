"""Filling: pieces that go on with a word are told from words, and put in without a space."""

import math

import pytest
import torch
from tokenizers import Tokenizer

from regard.data.published_subwords import SENTENCEPIECE, WORDPIECE
from regard.data.subword_kinds import BPE, CHARACTERS, MASK_NUMBER, SPECIALS, WORDS, Kind
from regard.data.subwords import Subwords
from regard.decoding import Beam
from regard.tasks.masked_words import filled
from tests.training.encoder_recipes import WORDS as HIDDEN_WORDS
from tests.training.encoder_recipes import trained

PIECES = ["<pad>", "<bos>", "<eos>", "<unk>", "[MASK]"]
PLAIN = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def wordpieces() -> Subwords:
    known = [*PIECES, "run", "the", "d", "##d", "##ning", "."]
    parts = {"vocab": {piece: i for i, piece in enumerate(known)}, "normalizer": PLAIN}
    return Subwords(WORDPIECE, WORDPIECE.rebuild(parts))


def sentencepieces() -> Subwords:
    known = [*PIECES, "▁run", "▁the", "▁d", "d", "ning", "."]
    parts = {"vocab": [(piece, -1.0) for piece in known], "normalizer": None}
    return Subwords(SENTENCEPIECE, SENTENCEPIECE.rebuild(parts))


def learned(kind: Kind) -> Subwords:
    return Subwords.train(["run d running red . 你好"] * 5, kind=kind, size=300).with_mask()


def fill(subwords, text, *likeliest):
    """What is said of a text where these pieces are the likeliest at its masks, in this order."""
    return filled_in(subwords, text, *likeliest).prediction


def filled_in(subwords, text, *likeliest):
    known = Tokenizer.from_str(subwords.as_json())
    guesses = torch.full((len(likeliest), len(subwords)), -9.0)
    for row, pieces in zip(guesses, likeliest, strict=True):
        for rank, piece in enumerate(pieces):
            row[known.token_to_id(piece)] = -float(rank)
    return filled(text, guesses.log_softmax(-1), subwords, len(likeliest[0]))


def shown(said):
    return [[one.text for one in words] for words in said.candidates]


def test_a_part_of_a_word_is_told_from_the_word():
    said = fill(wordpieces(), "the [MASK] run.", ["d", "##d"])
    assert shown(said) == [["d", "##d"]]
    assert [answer.text for answer in said.n_best] == ["the d run.", "thed run."]
    assert [answer.tokens for answer in said.n_best] == [("d",), ("##d",)]


def test_a_part_goes_on_with_what_another_mask_stands_for():
    said = fill(wordpieces(), "the [MASK] [MASK].", ["run"], ["##ning"])
    assert said.text == "the running."
    assert fill(wordpieces(), "run[MASK] the", ["##ning"]).text == "running the"
    assert fill(wordpieces(), "[MASK] the", ["##d"]).text == "d the"


def test_all_pieces_of_the_vocabulary_keep_their_probability():
    said = fill(wordpieces(), "the [MASK]", ["d", "##d"])
    chances = [one.probability for one in said.candidates[0]]
    assert chances[0] / chances[1] == pytest.approx(torch.tensor(1.0).exp().item())


def test_pieces_that_are_shown_alike_keep_their_own_probabilities():
    pieces = ["run", "Ġrun", "d"], ["d", "Ġrun", "."]
    filled = filled_in(learned(BPE), "[MASK] the [MASK]", *pieces)
    said = filled.prediction
    assert shown(said) == [["run", "run", "d"], ["##d", "run", "."]]
    assert [one.tokens[0] for one in said.n_best] == ["run"] * 3
    for answer, (first, second) in zip(said.n_best, filled.probabilities, strict=True):
        assert first * second == pytest.approx(math.exp(answer.score))
    assert len(set(filled.probabilities)) == 3


def test_no_more_words_are_guessed_than_there_are():
    subwords = wordpieces()
    guesses = torch.zeros(2, len(subwords))
    guesses[:, : len(PIECES)] = -torch.inf
    said = filled("[MASK] the [MASK]", guesses.log_softmax(-1), subwords, 99).prediction
    words = ["run", "the", "d", "##d", "##ning", "."]
    assert [sorted(each) for each in shown(said)] == [sorted(words)] * 2
    assert len(said.n_best) == len(words) ** 2
    assert all(torch.tensor(answer.score).isfinite() for answer in said.n_best)


def test_pieces_with_their_space_are_told_from_those_without():
    assert shown(fill(sentencepieces(), "the [MASK]", ["▁d", "d", "."])) == [["d", "##d", "."]]
    said = fill(learned(BPE), "the [MASK]", ["Ġrun", "d", "."])
    assert shown(said) == [["run", "##d", "."]]
    assert said.n_best[1].text == "thed"


def test_the_first_word_of_a_text_has_no_space_to_be_told_by():
    (words,) = shown(fill(learned(BPE), "[MASK] the", ["d", "Ġrun"]))
    assert words == ["d", "run"]
    assert shown(fill(wordpieces(), "[MASK] the", ["d", "##d"])) == [["d", "##d"]]


@pytest.mark.parametrize("kind", [CHARACTERS, WORDS])
def test_where_pieces_do_not_tell_nothing_goes_on(kind):
    subwords = learned(kind)
    assert subwords.encode("[MASK]") == [MASK_NUMBER]
    assert shown(fill(subwords, "run [MASK]", ["d", "."])) == [["d", "."]]


def test_a_script_without_spaces_is_not_marked():
    subwords = sentencepieces()
    assert not subwords.kind.goes_on("你")
    assert subwords.kind.goes_on("é")


def test_a_bare_space_is_no_candidate_for_a_hidden_word(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    one = trained(tmp_path, HIDDEN_WORDS.format(text=tmp_path / "text", kind="bpe"))
    blanks = one.tokenizer.blank_pieces
    assert " " in {one.tokenizer.readable(number) for number in blanks}
    # even where the model is sure of it
    with torch.no_grad():
        one.model.encoder.embedding.E.weight[list(blanks), -1] = 1e4
    n_all = len(one.tokenizer)
    (said,) = one.predict(["the [MASK] sat"], search=Beam(width=n_all, n_best=n_all))
    (candidates,) = said.candidates
    assert len(candidates) == n_all - len(blanks) - len(SPECIALS) - 1
    assert all(word.text.removeprefix("##").strip() for word in candidates)
    assert sum(word.probability for word in candidates) == pytest.approx(1, abs=1e-4)
