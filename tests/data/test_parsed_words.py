"""Parsed words: a number holds a word and its head, and both come out again."""

import pytest
import torch

from regard.data.parsed_words import PARSED_WORDS, heads_of, with_heads
from regard.data.subwords import Subwords
from regard.data.treebanks import Treebank
from regard.errors import DataError
from regard.places import Tree

TEXT = "the↑2 cat↑3 sleeps↑0 today↑3"

SENTENCE = """\
# text = the cat doesn't sleep
1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t5\tnsubj\t_\t_
3-4\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
3\tdoes\tdo\tAUX\tVBZ\t_\t5\taux\t_\t_
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t_\t_
5\tsleep\tsleep\tVERB\tVB\t_\t{head}\troot\t_\t_

"""


@pytest.fixture
def subwords():
    return Subwords.train([TEXT, "a↑0"], kind=PARSED_WORDS, size=20)


def test_words_and_heads_are_parted_by_the_size_of_the_vocabulary(subwords):
    numbers = subwords.encode(TEXT)
    assert [number // len(subwords) for number in numbers] == [2, 3, 0, 3]
    assert [subwords.readable(number) for number in numbers] == ["the", "cat", "sleeps", "today"]
    assert subwords.encode_all([TEXT, "a"]) == [numbers, subwords.encode("a↑0")]


def test_a_word_is_one_word_whatever_it_hangs_from(subwords):
    one, other = subwords.encode("cat↑0 cat↑1")
    assert one % len(subwords) == other % len(subwords)


def test_a_vocabulary_is_read_as_it_was_written(subwords, tmp_path):
    subwords.save(tmp_path / "tokenizer.json")
    again = Subwords.load(tmp_path / "tokenizer.json")
    assert again.kind is PARSED_WORDS
    assert again.encode(TEXT) == subwords.encode(TEXT)


def test_files_are_told_how_large_numbers_become(subwords):
    assert subwords.n_ids > max(subwords.encode(TEXT))
    plain = Subwords.train(["a b"], size=300)
    assert plain.n_ids == len(plain)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a↑3 b↑0", "between 0 and that"),
        pytest.param(f"a↑{'1' * 5000} b↑0", "between 0 and that", id="a number too long to read"),
        ("a↑2 b↑1", "form a circle"),
    ],
)
def test_heads_that_are_no_tree_are_refused(text, said):
    with pytest.raises(DataError, match=said):
        heads_of(text)


def test_an_arrow_without_a_number_is_refused_in_a_source(subwords):
    with pytest.raises(DataError) as said:
        subwords.for_sources().encode("The↑x cat↑0")
    assert str(said.value) == (
        "parsed_words: 'The↑x' has an arrow, but behind it stands no number; expected the place of "
        "the word's head, 0 for a root, as in The↑2 cat↑0."
    )


def test_a_source_of_several_words_and_no_arrow_is_refused_and_a_target_is_not(subwords):
    source = subwords.for_sources()
    with pytest.raises(DataError) as said:
        source.encode("the cat sleeps")
    assert str(said.value) == (
        "parsed_words: 'the cat sleeps' comes without its tree; expected the number of its head "
        "behind each word, 0 for a root, as in The↑2 cat↑3 sleeps↑0. A treebank is read so with "
        "has_trees = true."
    )
    with pytest.raises(DataError, match="comes without its tree"):
        source.encode_all([TEXT, "the cat"])
    assert subwords.encode("the cat") == subwords.encode("the↑0 cat↑0")
    # one word can hang from nothing else, and a root may do without its arrow beside others
    for text in (TEXT, "cat", "", "the↑2 cat"):
        assert source.encode(text) == subwords.encode(text)
    assert source.fingerprint == subwords.fingerprint
    plain = Subwords.train(["a b"], size=300)
    assert plain.for_sources() is plain


def test_a_treebank_gives_words_with_their_heads(tmp_path):
    (tmp_path / "a.conllu").write_text(SENTENCE.format(head=0))
    (example,) = Treebank(tmp_path / "a.conllu", has_trees=True).examples()
    assert example.source == "the↑2 cat↑5 does↑5 n't↑5 sleep↑0"
    assert example.targets == ("DET NOUN AUX PART VERB",)
    (plain,) = Treebank(tmp_path / "a.conllu").examples()
    assert plain.source == "the cat does n't sleep"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("_", "has the head '_'"),
        ("²", "has the head '²'"),
        pytest.param("1" * 5000, "has the head '111", id="a number too long to read"),
        (2, "is no tree"),
    ],
)
def test_a_sentence_that_is_no_tree_is_refused_with_its_line(tmp_path, head, said):
    (tmp_path / "a.conllu").write_text(SENTENCE.format(head=head))
    with pytest.raises(DataError, match=said):
        list(Treebank(tmp_path / "a.conllu", has_trees=True).examples())


def test_heads_are_those_of_the_tree(subwords):
    heads = torch.tensor([[head - 1 for head in heads_of(TEXT)]])
    assert Tree.from_heads(heads).depth.tolist() == [[2, 1, 0, 1]]
    assert with_heads(["the", "cat", "sleeps", "today"], heads_of(TEXT)) == TEXT
