"""Sub-words: exact round trips, unknown pieces, dropout, and files that are refused."""

import copy
import json
import pickle
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.data.subword_kinds import BPE, BYTE_PIECES, CHARACTERS, KINDS, UNIGRAM, WORDS
from regard.data.subwords import Subwords
from regard.errors import DataError, SettingError

TEXT = [
    "the cat sat on the mat",
    "the dog sat on the log, and the cat ran",
    "der Hund läuft über die Straße",
    "我爱自然语言处理",
    "न मैं गया",
] * 3
SIZES = {BPE: 330, UNIGRAM: 330, BYTE_PIECES: 260, CHARACTERS: 60, WORDS: 60}
TRAINED = {kind: Subwords.train(TEXT, kind=kind, size=size) for kind, size in SIZES.items()}
EVERY = pytest.mark.parametrize("kind", SIZES, ids=lambda kind: kind.name)
EXACT = pytest.mark.parametrize("kind", [BPE, UNIGRAM, BYTE_PIECES], ids=lambda kind: kind.name)


@EXACT
@given(
    text=st.text()
    | st.lists(st.sampled_from([*"the cat äß我😀 \n\t\r\u0301", "<pad>"])).map("".join)
)
@example(text="  two  spaces, and one behind ")
@example(text="<pad><bos><eos><unk> <0x41> Ġ ▁")
@example(text="e\u0301 👩‍👩‍👧 \x00 \ufffd \u2028 \r\n")
@example(text="")
def test_every_text_comes_back_as_it_was(kind, text):
    ids = TRAINED[kind].encode(text)
    assert TRAINED[kind].decode(ids) == text
    assert all(3 < number < len(TRAINED[kind]) for number in ids)


@given(text=st.text(alphabet="the casond g"))
def test_characters_come_back_where_they_are_known(text):
    assert TRAINED[CHARACTERS].decode(TRAINED[CHARACTERS].encode(text)) == text
    assert len(TRAINED[CHARACTERS].encode(text)) == len(text)


def test_unknown_characters_and_words_read_as_unknown():
    assert TRAINED[CHARACTERS].encode("Zt\n")[0] == 3
    assert TRAINED[CHARACTERS].decode(TRAINED[CHARACTERS].encode("Zt\n")) == "�t�"
    assert TRAINED[WORDS].decode(TRAINED[WORDS].encode("the  zebra sat")) == "the � sat"


@EVERY
def test_a_text_that_looks_like_a_special_piece_is_never_one(kind):
    assert min(TRAINED[kind].encode("<pad> <bos> <eos> <unk> <pad>")) >= 3


@EVERY
def test_special_pieces_say_nothing(kind):
    ids = TRAINED[kind].encode("the cat")
    assert TRAINED[kind].decode([1, *ids, 2, 0, 0]) == "the cat"
    assert TRAINED[kind].decode([3]) == "�"
    assert [TRAINED[kind].readable(i) for i in range(4)] == ["<pad>", "<bos>", "<eos>", "<unk>"]


@EVERY
def test_a_vocabulary_is_no_larger_than_asked_and_the_same_every_time(kind):
    again = Subwords.train(iter(TEXT), kind=kind, size=SIZES[kind])
    assert len(again) <= SIZES[kind]
    assert again.fingerprint == TRAINED[kind].fingerprint
    other = Subwords.train(["other words"], kind=kind, size=SIZES[kind])
    # all bytes are known beforehand
    assert (other.fingerprint == again.fingerprint) == (kind is BYTE_PIECES)


def test_the_most_frequent_are_kept_and_ties_go_by_the_alphabet():
    subwords = Subwords.train(["b a c c b", "d"], kind=WORDS, size=7)
    assert [subwords.readable(i) for i in range(4, 7)] == ["b", "c", "a"]


@EVERY
@given(text=st.text(alphabet="the cat sat äß我😀 "))
def test_offsets_say_which_characters_a_piece_covers(kind, text):
    subwords = TRAINED[kind]
    offsets, tokens = subwords.offsets(text), subwords.tokens(text)
    assert len(offsets) == len(tokens) == len(subwords.encode(text))
    for (start, end), token in zip(offsets, tokens, strict=True):
        assert token == text[start:end] or "<0x" in token or token == "<unk>"
    covered = {place for start, end in offsets for place in range(start, end)}
    assert all(place in covered or text[place].isspace() for place in range(len(text)))


@pytest.mark.parametrize("has_mask", [False, True])
@EVERY
@given(text=st.text() | st.text(alphabet="the cat 我\t\x1c[MASK]"))
@example(text="the cat" + 40 * " " + "[MASK]")
@example(text="<unk>the cat sat")
def test_a_text_has_at_least_its_fewest_pieces(kind, has_mask, text):
    subwords = TRAINED[kind].with_mask() if has_mask else TRAINED[kind]
    assert subwords.fewest(text) <= len(subwords.encode(text))


@pytest.mark.parametrize("kind", [BPE, UNIGRAM, CHARACTERS], ids=lambda kind: kind.name)
def test_a_long_text_is_known_to_be_long_before_it_is_cut(kind):
    subwords = TRAINED[kind]
    longest = max(len(piece) for piece in subwords.pieces[4:])
    assert subwords.fewest("the cat " * 1000) == -(-6000 // longest)


def test_bytes_of_a_character_are_shown_as_numbers():
    assert TRAINED[BPE].tokens("the 狗") == ["the", " ", "<0xE7>", "<0x8B>", "<0x97>"]


def test_many_texts_are_encoded_as_one_by_one():
    texts = [*TEXT, "", "<pad>"]
    for subwords in TRAINED.values():
        assert subwords.encode_all(texts) == [subwords.encode(text) for text in texts]


@given(text=st.text(), seed=st.integers(0, 99))
def test_dropout_cuts_finer_reads_the_same_and_repeats_with_its_seed(text, seed):
    subwords = TRAINED[BPE]
    dropped = subwords.encode(text, dropout=0.5, random=random.Random(seed))
    assert subwords.decode(dropped) == text
    assert len(dropped) >= len(subwords.encode(text))
    assert dropped == subwords.encode(text, dropout=0.5, random=random.Random(seed))


def test_dropout_goes_from_the_plain_cut_to_single_bytes():
    subwords, text = TRAINED[BPE], "the cat sat über 我"
    assert subwords.encode(text, dropout=1e-12, random=random.Random(0)) == subwords.encode(text)
    whole = subwords.encode(text, dropout=1.0, random=random.Random(0))
    assert len(whole) == len(text.encode())
    cuts = {tuple(subwords.encode(text, dropout=0.3, random=random.Random(i))) for i in range(20)}
    assert len(cuts) > 10


def test_a_copied_vocabulary_cuts_in_as_many_ways_as_the_first():
    made, first = copy.deepcopy(TRAINED[BPE]), TRAINED[BPE]
    cuts = [one.encode(TEXT[0], dropout=0.5, random=random.Random(3)) for one in (made, first)]
    assert cuts[0] == cuts[1] != first.encode(TEXT[0])


@EVERY
def test_a_pickled_kind_is_the_same_kind(kind):
    assert pickle.loads(pickle.dumps(kind)) == kind


def test_dropout_is_refused_where_it_means_nothing():
    with pytest.raises(SettingError, match="dropout is bpe's; unigram has no merges to leave out"):
        TRAINED[UNIGRAM].encode("a", dropout=0.1, random=random.Random(0))
    with pytest.raises(
        SettingError, match=r"must lie in \[0, 1\] and needs random=, got 0.1, None"
    ):
        TRAINED[BPE].encode("a", dropout=0.1)
    with pytest.raises(SettingError, match=r"must lie in \[0, 1\] and needs random=, got 1.5"):
        TRAINED[BPE].encode("a", dropout=1.5, random=random.Random(0))


@EVERY
def test_what_cannot_be_learnt_or_encoded_is_refused(kind):
    with pytest.raises(DataError, match="there is no text to learn from"):
        Subwords.train(["", ""], kind=kind, size=300)
    with pytest.raises(SettingError, match=rf"{kind.name}: size must be .* got 4"):
        Subwords.train(["a"], kind=kind, size=4)
    with pytest.raises(DataError, match="holds half a character"):
        Subwords.train(["\ud800"], kind=kind, size=300)
    with pytest.raises(DataError, match="holds half a character"):
        TRAINED[kind].encode("\ud800")
    with pytest.raises(DataError, match="holds half a character"):
        TRAINED[kind].encode_all(["a", "\ud800"])
    with pytest.raises(DataError, match="there is no piece 99999; the vocabulary has"):
        TRAINED[kind].decode([99999])


@EVERY
def test_a_saved_vocabulary_is_the_same_again(kind, tmp_path):
    path = tmp_path / "tokenizer.json"
    TRAINED[kind].save(path)
    again = Subwords.load(path)
    assert again.kind is kind
    assert again.fingerprint == TRAINED[kind].fingerprint
    text = "the catfish <pad> über 我 😀"
    assert again.encode(text) == TRAINED[kind].encode(text)
    assert list(tmp_path.iterdir()) == [path]


def _changed(kind, **parts):
    content = json.loads(TRAINED[kind]._tokenizer.to_str())
    content["model"].update(parts)
    return json.dumps(content).encode()


def _vocabulary(kind):
    return json.loads(TRAINED[kind]._tokenizer.to_str())["model"]["vocab"]


def _without(kind, piece):
    return {p: i for i, p in enumerate(p for p in _vocabulary(kind) if p != piece)}


MALFORMED = {
    "a renamed pickle": (lambda: pickle.dumps({"model": 1}), "it is not UTF-8"),
    "an empty file": (lambda: b"", "it is not JSON"),
    "deep nesting": (lambda: b"[" * 100_000, "it is not JSON"),
    "other JSON": (lambda: b"[1, 2]", "it has no 'model' and 'pre_tokenizer'"),
    "another model": (lambda: _changed(BPE, type="WordPiece"), "is none of bpe, unigram"),
    "no vocabulary": (lambda: _changed(BPE, vocab=None), "it has no list of pieces"),
    "few pieces": (lambda: _changed(WORDS, vocab={"a": 0}), "it has 1 pieces; expected 5 to"),
    "absurd numbers": (
        lambda: _changed(WORDS, vocab={**_vocabulary(WORDS), "x": 4_000_000_000}),
        "its numbers are not 0 to",
    ),
    "true as a number": (
        lambda: _changed(WORDS, vocab={**_vocabulary(WORDS), "<bos>": True}),
        "its numbers are not 0 to",
    ),
    "no special pieces": (
        lambda: _changed(WORDS, vocab={f"w{i}": i for i in range(9)}),
        "its first pieces are not <pad> <bos> <eos> <unk>",
    ),
    "a byte less": (lambda: _changed(BPE, vocab=_without(BPE, "!")), "it lacks the bytes !"),
    "no merges": (lambda: _changed(BPE, merges="a b"), "it has no list of merges"),
    "a foreign merge": (lambda: _changed(BPE, merges=[["zq", "qz"]]), "is not of its pieces"),
    "a merge of three": (lambda: _changed(BPE, merges=[["t", "h", "e"]]), "is not of its pieces"),
    "no score": (
        lambda: _changed(UNIGRAM, vocab=[*_vocabulary(UNIGRAM), ["x"]]),
        "is not a piece with its score",
    ),
    "an infinite score": (
        lambda: _changed(UNIGRAM, vocab=[*_vocabulary(UNIGRAM), ["x", float("inf")]]),
        "is not a piece with its score",
    ),
    "a piece twice": (
        lambda: _changed(UNIGRAM, vocab=_vocabulary(UNIGRAM) * 2),
        "a piece stands in it twice",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused(case, tmp_path):
    make, said = MALFORMED[case]
    path = tmp_path / "tokenizer.json"
    path.write_bytes(make())
    with pytest.raises(DataError, match=rf"tokenizer\.json' is no vocabulary: .*{said}"):
        Subwords.load(path)


def test_an_absurdly_large_file_is_refused_unread(tmp_path):
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="it is larger than 256 MiB"):
        Subwords.load(path)


def test_more_pieces_than_any_vocabulary_needs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    monkeypatch.setattr("regard.data.vocabulary_files.MAX_PIECES", 30)
    path.write_bytes(_changed(WORDS, vocab={str(i): i for i in range(31)}))
    with pytest.raises(DataError, match="it has 31 pieces; expected 5 to 30"):
        Subwords.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        Subwords.load(tmp_path / "tokenizer.json")


def test_the_table_names_every_kind():
    assert list(KINDS) == ["bpe", "unigram", "bytes", "characters", "words"]
    assert all(KINDS[name].name == name for name in KINDS)


@EVERY
def test_a_text_that_holds_the_mask_leaves_one_piece_for_it(kind, tmp_path):
    texts = ["the [MASK] cat", "[MASK] [MASK]", "[MASK]"] * 20
    made = Subwords.train(texts, kind=kind, size=320).with_mask()
    made.save(tmp_path / "tokenizer.json")
    again = Subwords.load(tmp_path / "tokenizer.json")
    pieces = [again.readable(number) for number in range(len(again))]
    assert pieces.count("[MASK]") == 1
    assert again.has_mask
    assert again.encode("the [MASK]")[-1] == 4
