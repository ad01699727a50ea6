"""Pieces become words that people know, and no piece is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.published_subwords import WORDPIECE
from regard.data.subword_kinds import (
    BOS,
    BPE,
    BYTES,
    CHARACTERS,
    EOS,
    SPECIALS,
    UNIGRAM,
    UNK,
    WORDS,
)
from regard.data.subwords import Subwords
from regard.inspecting.token_labels import (
    read_ids,
    read_text,
    spans_of,
    visible,
    word_numbers,
    words_of,
)

LEARNT = ["to be or not to be, déjà vu", "9. Mai 2029 2029-05-09 我们 3月"]
VOCABULARIES = {
    kind.name: Subwords.train(LEARNT, kind=kind, size=300)
    for kind in (BPE, UNIGRAM, CHARACTERS, WORDS)
}


def test_pieces_show_their_spaces_and_belong_to_words():
    tokens = read_text(VOCABULARIES["bpe"], "to be, déjà", after=[EOS])
    assert tokens.pieces[:3] == ("to", "▁be", ",")
    assert tokens.names == ("to", "be", ",", "déjà", "<eos>")
    assert tokens.specials == {4}
    assert tokens.pieces[-1] == "<eos>"


def test_special_pieces_of_bert_have_its_own_names():
    vocabulary = [*SPECIALS, "[MASK]", "to", "be"]
    said = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    plain = {"type": "BertNormalizer", "lowercase": True, **said}
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    parts = {"vocab": numbers, "normalizer": plain}
    published = Subwords(WORDPIECE, WORDPIECE.rebuild(parts))
    tokens = read_text(published, "to [MASK] zebra", before=[BOS], after=[EOS])
    assert tokens.names[0] == "[CLS]"
    assert tokens.names[-1] == "[SEP]"
    assert tokens.pieces[1] == "to"
    assert "[UNK]" in tokens.pieces
    assert tokens.specials == {0, len(tokens.names) - 1}


def test_letters_of_a_date_make_words_and_a_space_goes_with_the_word_after_it():
    tokens = read_text(VOCABULARIES["characters"], "9. Mai 2029")
    assert tokens.pieces == tuple("9.▁Mai▁2029")
    assert tokens.names == ("9", ".", "Mai", "2029")
    assert tokens.words == (0, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3)


def test_chinese_characters_are_words_and_hindi_vowel_signs_are_not():
    assert word_numbers("2024年3月我们") == [0, 0, 0, 0, 1, 2, 3, 4, 5]
    assert word_numbers("मार्च मई") == [0, 0, 0, 0, 0, 1, 1, 1]


def test_an_unknown_word_of_the_source_keeps_its_letters():
    tokens = read_text(VOCABULARIES["words"], "to zebra")
    assert tokens.pieces == ("to", "<unk>")
    assert tokens.names == ("to", "zebra")


def test_an_answer_that_was_cut_in_an_unusual_way_has_the_same_words():
    subwords = VOCABULARIES["bpe"]
    letters = [number for letter in "to be" for number in subwords.encode(letter)]
    assert len(letters) > len(subwords.encode("to be"))
    tokens = read_ids(subwords, letters, before=[BOS])
    assert tokens.names == ("<bos>", "to", "be")
    assert tokens.words == (0, 1, 1, 2, 2, 2)


def test_a_character_spelt_byte_by_byte_is_one_word():
    subwords = VOCABULARIES["bpe"]
    ids = subwords.encode("a☃b")
    tokens = read_ids(subwords, ids)
    assert tokens.pieces[1:4] == ("<0xE2>", "<0x98>", "<0x83>")
    assert tokens.names == ("a", "☃", "b")
    assert tokens.words == (0, 1, 1, 1, 2)


def test_half_a_character_at_the_end_is_no_word_but_no_crash_either():
    subwords = VOCABULARIES["bpe"]
    tokens = read_ids(subwords, [*subwords.encode("to"), *subwords.encode("☃")[:2]])
    assert len(tokens) == 3
    assert tokens.names == ("to", "�")


def spelt(*parts):
    """Numbers of pieces: those of a text, or one for each byte."""
    subwords = VOCABULARIES["bpe"]
    letters = {byte: letter for letter, byte in BYTES.items()}
    return [
        number
        for part in parts
        for number in (
            subwords.encode(part)
            if isinstance(part, str)
            else [subwords.pieces.index(letters[byte]) for byte in part]
        )
    ]


def covered(ids, kind="bpe"):
    """The text of some pieces, and what each of them covers."""
    text = VOCABULARIES[kind].decode(ids)
    return text, spans_of(VOCABULARIES[kind], ids, text)


@pytest.mark.parametrize(
    ("parts", "spans"),
    [
        (["to", b"\xf0\x9f", " be", " or"], [(0, 2), (2, 3), (2, 3), (3, 6), (6, 9)]),
        ([b"\xe2", b"\xe2", " be"], [(0, 1), (1, 2), (2, 5)]),
        ([b"\x80\x80\xff", " be", " be"], [(0, 1), (1, 2), (2, 3), (3, 6), (6, 9)]),
        ([b"\xe2", "é".encode(), " be"], [(0, 1), (1, 2), (1, 2), (2, 5)]),
        (["to", "é".encode(), " be"], [(0, 2), *[(2, 3)] * 2, (3, 6)]),
        (["to", "我".encode(), " be"], [(0, 2), *[(2, 3)] * 3, (3, 6)]),
        (["to", "🐕".encode() * 2, " be"], [(0, 2), *[(2, 3)] * 4, *[(3, 4)] * 4, (4, 7)]),
        (["to", "�".encode(), b"\x80", " be"], [(0, 2), *[(2, 3)] * 3, (3, 4), (4, 7)]),
        ([" be", b"\xff", "🐕".encode()[:3]], [(0, 3), (3, 4), *[(4, 5)] * 3]),
    ],
)  # fmt: skip
def test_broken_bytes_take_nothing_of_the_pieces_beside_them(parts, spans):
    assert covered(spelt(*parts))[1] == spans


def test_a_word_behind_broken_bytes_is_a_word_of_its_own():
    text, spans = covered(spelt(b"\xe2\x80\x80", b"\xe2", " be", " be", " be"))
    assert text == "\u2000� be be be"
    assert words_of(text, spans[3:]) == [0, 1, 2, 3]
    text, spans = covered(spelt(b"\xff\xfe\xe2", " be", " be"))
    assert (text, words_of(text, spans)) == ("��� be be", [0, 0, 0, 1, 2])


def test_unknown_words_are_words_of_their_own():
    subwords = VOCABULARIES["words"]
    to, be = subwords.encode("to be")
    assert covered([UNK, UNK, to, UNK, be], "words") == (
        "� � to � be", [(0, 1), (2, 3), (4, 6), (7, 8), (9, 11)],
    )  # fmt: skip


@given(st.lists(st.integers(EOS + 1, len(VOCABULARIES["bpe"]) - 1), max_size=12))
def test_pieces_however_broken_cover_their_text_in_order(ids):
    subwords = VOCABULARIES["bpe"]
    text, spans = covered(ids)
    places = [0]
    for number, (start, end) in zip(ids, spans, strict=True):
        assert (start, end) == tuple(places[-2:]) or start == places[-1] < end
        places += [end] if end != places[-1] else []
        if subwords.kind.read(subwords.pieces[number]) is not None:
            assert text[start:end] == subwords.decode([number])
    assert places[-1] == len(text)


def test_control_characters_are_seen_and_do_nothing():
    assert visible("\x1b[2J") == "␛[2J"
    assert visible("a\u202eb\x9b") == "a�b�"


@given(st.text(st.sampled_from("ab .,-é9我☃\u0301مा\n"), min_size=1, max_size=12))
def test_every_piece_has_one_word_and_words_are_the_text(text):
    for name in ("bpe", "unigram", "characters"):
        for read in (
            read_text(VOCABULARIES[name], text),
            read_ids(VOCABULARIES[name], VOCABULARIES[name].encode(text)),
        ):
            steps = [b - a for a, b in zip((0, *read.words), read.words, strict=False)]
            assert set(steps) <= {0, 1}
            assert read.words[-1] == len(read.names) - 1
            if name != "characters" and text.strip():
                assert "".join(read.names) == "".join(text.split())
