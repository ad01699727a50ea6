"""Treebanks: words and tags of CoNLL-U files, and what is refused."""

import lzma

import pytest

from regard.data import READERS, Example, reader_for
from regard.data.treebanks import Treebank
from regard.errors import DataError, UnknownChoice


def _line(number, word, upos="NOUN", xpos="NN", head="0"):
    return "\t".join([str(number), word, "_", upos, xpos, "_", head, "root", "_", "_"])


SENTENCES = [
    "# sent_id = 1",
    "# text = I don't",
    _line(1, "I", "PRON", "PRP"),
    _line("2-3", "don't", "_", "_"),
    _line(2, "do", "AUX", "VBP"),
    _line(3, "n't", "PART", "RB"),
    _line("3.1", "go", "VERB", "VB"),
    "",
    "# text = #",
    _line(1, "#", "SYM", "NN"),
    "",
]
WORDS = [Example("I do n't", ("PRON AUX PART",)), Example("#", ("SYM",))]


def _file(folder, *rows):
    path = folder / "a.conllu"
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def test_every_syntactic_word_has_its_tag_and_nothing_else_is_read(tmp_path):
    path = _file(tmp_path, *SENTENCES)
    assert list(Treebank(path).examples()) == WORDS
    assert list(reader_for([path]).examples()) == WORDS
    assert [one.targets[0] for one in READERS["conllu"](path, tags="xpos").examples()] == [
        "PRP VBP RB",
        "NN",
    ]
    with pytest.raises(UnknownChoice, match="Known: upos, xpos"):
        Treebank(path, tags="pos")


def test_a_packed_file_and_one_without_a_last_empty_line_are_read_alike(tmp_path):
    path = tmp_path / "a.conllu.xz"
    path.write_bytes(lzma.compress("\n".join(SENTENCES[:-1]).encode()))
    assert list(Treebank(path).examples()) == WORDS


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1\tword\tNOUN", r"line 13 has 3 columns; CoNLL-U has 10, parted by tabs\."),
        (_line(1, "a b"), r"line 13 has the word 'a b'; a word has no space"),
        (_line(1, ""), r"line 13 has the word ''; a word has no space, and is not empty"),
        (_line(1, "a", "_"), r"line 13 has no upos tag\. Tag the file, or take other tags\."),
        (_line("x", "a"), r"line 13 has the number 'x'; expected one such as 3, 3-4 of a range"),
        (_line("²", "a"), r"line 13 has the number '²'"),
        (_line(2, "a"), r"line 13 has the number 2 where 1 was expected\. Is the empty line"),
        (_line(5000 * "1", "a"), r"line 13 has the number 1{20} where 1 was expected"),
        (_line("1-2", "a"), r"line 13 begins a sentence without words\."),
    ],
)
def test_a_broken_sentence_is_refused_with_its_line_and_the_next_can_be_read(
    tmp_path, row, message
):
    reader = Treebank(_file(tmp_path, *SENTENCES, "# text = x", row, "", _line(1, "a")))
    with pytest.raises(DataError, match=message):
        list(reader.examples())
    found = [row.found for row in reader.rows()]
    assert (found[:2], found[3]) == (WORDS, Example("a", ("NOUN",)))
    assert found[2][0].check == "format"
    assert [row.number for row in reader.rows()] == [3, 10, 13, 15]


def test_two_sentences_without_an_empty_line_between_them_are_refused(tmp_path):
    rows = [_line(1, "a"), _line(2, "b", head="1"), _line(1, "c"), _line(2, "d", head="1")]
    for reader in (
        Treebank(_file(tmp_path, *rows)),
        Treebank(_file(tmp_path, *rows), "upos", True),
    ):
        for read in (reader.examples, reader.sources):
            with pytest.raises(DataError, match="line 3 has the number 1 where 3 was expected"):
                list(read())


def test_a_line_that_is_no_text_breaks_its_sentence_alone(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes(_line(1, "a").encode() + b"\n\xff\n\n" + _line(1, "b").encode() + b"\n")
    found = [row.found for row in Treebank(path).rows()]
    assert found[0][0].number == 2
    assert found[1] == Example("b", ("NOUN",))


def test_what_is_read_of_a_sentence_needs_no_tags(tmp_path):
    rows = [
        _line(1, "a", "_", "_", "_"),
        _line("2-3", "don't", "_", "_"),
        _line(2, "b", "", "", ""),
    ]
    path = _file(tmp_path, *rows, "", _line(1, "c"), _line(2, "d", "_", "_", "1"))
    assert list(Treebank(path).sources()) == ["a b", "c d"]
    refused = r"line 1 has the head '_'; expected the number of a word, or 0\."
    with pytest.raises(DataError, match=refused):
        list(Treebank(path, has_trees=True).sources())
    with pytest.raises(DataError, match=r"line 1 has no xpos tag\."):
        list(Treebank(path, tags="xpos").examples())
    path = _file(tmp_path, _line(1, "c"), _line(2, "d", "_", "_", "1"))
    assert list(Treebank(path, has_trees=True).sources()) == ["c↑0 d↑1"]
    path.write_bytes(path.read_bytes() + b"\n\xff\n")
    with pytest.raises(DataError, match="line 4: byte 0xff"):
        list(Treebank(path).sources())
