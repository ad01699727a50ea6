"""Vocabularies of every layout: their pieces, their numbers here, and the rows they came from."""

import json
import shutil
import struct

import pytest
from tokenizers import Tokenizer

from regard.data.subword_kinds import BOS, EOS, MASK_NUMBER, PAD, SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.errors import CheckpointError, DataError
from regard.interop.importing import import_run, read_published
from regard.interop.importing.family import Languages
from regard.interop.importing.sentencepieces import read_pieces
from tests.interop.importing.families import MANY_PIECES, m2m100
from tests.interop.importing.published import (
    BERT_PIECES,
    GPT2_MERGES,
    GPT2_PIECES,
    MARIAN_PIECES,
    bert,
    big_bird,
    gpt2,
    marian,
    numbered,
)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    """One field of a protocol buffer, by hand."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def spm(scores, *, kind=1, table=b""):
    """A sentencepiece file: unknown and control pieces first, as they always stand."""
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), *((p, s, 1) for p, s in scores.items())]
    data = b"".join(
        field(1, field(1, text.encode()) + field(2, score) + field(3, sort))
        for text, score, sort in pieces
    )
    trainer = field(2, field(1, b"corpus.txt") + field(3, kind))
    return data + trainer + field(3, field(1, b"nmt_nfkc") + field(2, table))


def opus(folder):
    """Marian's own files in place of a tokenizer file."""
    (folder / "tokenizer.json").unlink()
    half = {piece: -1.0 - i / 10 for i, piece in enumerate(MARIAN_PIECES[2:-1]) if piece != "▁cat"}
    (folder / "source.spm").write_bytes(spm(half))
    (folder / "target.spm").write_bytes(spm({"▁cat": -2.0, "▁": -3.0, "s": -3.0, "t": -3.5}))
    (folder / "vocab.json").write_text(json.dumps(numbered(MARIAN_PIECES)))
    return folder


def test_a_sentencepiece_file_gives_pieces_and_scores(tmp_path):
    table = struct.pack("<I", 4) + bytes(8)
    (tmp_path / "a.spm").write_bytes(spm({"▁the": -1.5, "猫": -2.25}, table=table))
    found = read_pieces(tmp_path / "a.spm")
    assert found.scores == {"▁the": -1.5, "猫": -2.25}
    assert found.merges is None
    assert found.changes["type"] == "Precompiled"


@pytest.mark.parametrize("length", [1, 5, 9])
def test_a_sentencepiece_file_that_breaks_off_is_refused(tmp_path, length):
    whole = spm({"▁the": -1.5})
    (tmp_path / "a.spm").write_bytes(whole[:length])
    with pytest.raises(CheckpointError, match="is no sentencepiece model"):
        read_pieces(tmp_path / "a.spm")


def test_a_sentencepiece_model_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.spm").write_bytes(spm({"▁the": -1.5}, kind=3))
    with pytest.raises(CheckpointError, match="must be a model of unigrams or pairs, got kind 3"):
        read_pieces(tmp_path / "a.spm")


def test_a_sentencepiece_file_of_pairs_gives_them_in_the_order_of_their_pieces(tmp_path):
    ranked = ["▁t", "he", "▁the", "▁", "t", "h", "e"]
    scores = {piece: float(-i) for i, piece in enumerate(ranked)}
    (tmp_path / "a.spm").write_bytes(spm(scores, kind=2))
    found = read_pieces(tmp_path / "a.spm")
    assert found.merges == [("▁", "t"), ("h", "e"), ("▁t", "he")]


def test_a_shared_sentencepiece_file_with_a_list_of_languages_is_read(tmp_path):
    folder, _ = m2m100(tmp_path / "m2m100")
    (folder / "tokenizer.json").unlink()
    ranked = ["▁t", "he", "▁the", "▁", "t", "h", "e"]
    first = MANY_PIECES.index("de_DE")
    words = [*MANY_PIECES[:4], *ranked, *(f"other{i}" for i in range(first - 4 - len(ranked)))]
    (folder / "sentencepiece.bpe.model").write_bytes(
        spm({piece: float(-i) for i, piece in enumerate(ranked)}, kind=2)
    )
    (folder / "vocab.json").write_text(json.dumps(numbered(words)))
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["__de__", "__en__", "__fr__"]})
    )
    imported = read_published(folder, Languages("de", "fr"))
    assert imported.source.kind.name == "spaced_bpe"
    read = imported.source.encode("the the")
    rows = [imported.rows["source"][i].number for i in read]
    assert rows == [first, words.index("▁the"), words.index("▁the")]
    assert imported.source.decode(read) == "the the"
    assert imported.target.readable(imported.target.before[0]) == "__fr__"


def test_marians_own_files_give_one_numbering_and_two_ways_of_cutting(tmp_path):
    folder, _ = marian(tmp_path / "marian")
    imported = read_published(opus(folder))
    source, target = imported.source, imported.target
    assert not imported.recipe.tokens.is_joint
    assert len(source) == len(target) == len(MARIAN_PIECES) + 1
    cat = source.encode("the cat")
    assert source.tokens("the  cat") == [" the", " cat"]
    assert [imported.rows["source"][i].number for i in cat] == [
        MARIAN_PIECES.index("▁the"), MARIAN_PIECES.index("▁cat"),
    ]  # fmt: skip
    assert target.decode(cat) == "the cat"
    assert target.encode("cat") == cat[1:]


def test_a_run_with_two_vocabularies_is_read_again(tmp_path):
    folder, _ = marian(tmp_path / "marian")
    import_run(opus(folder), tmp_path / "run")
    again = Subwords.load(tmp_path / "run" / "tokenizer.source.json")
    assert again.decode(again.encode("the cat")) == "the cat"


@pytest.mark.parametrize("make", [bert, big_bird, marian, gpt2])
def test_a_vocabulary_as_it_was_written_cuts_as_the_published_one(tmp_path, make):
    folder, _ = make(tmp_path / "published")
    import_run(folder, tmp_path / "run")
    imported, mine = read_published(folder), Subwords.load(tmp_path / "run" / "tokenizer.json")
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("the cat sat on a mat", "The dogs, running home.", "paris is the capital"):
        got = [imported.rows["source"][i].number for i in mine.encode(text)]
        assert got == theirs.encode(text).ids
    assert mine.fingerprint == imported.source.fingerprint


@pytest.mark.parametrize("make", [bert, big_bird, marian, gpt2])
def test_special_pieces_come_first(tmp_path, make):
    folder, _ = make(tmp_path / "published")
    imported = read_published(folder)
    assert [imported.source.readable(i) for i in range(4)] == list(SPECIALS)
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    numbers = [row.number for row in imported.rows["target"] if row.is_writable]
    said = [number for number in numbers if number is not None]
    assert len(set(said)) == len(said)


def test_a_word_that_looks_like_a_special_piece_is_no_special_piece(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    encoded = read_published(folder).source.encode("the <pad> [SEP] <eos>")
    assert not {PAD, BOS, EOS, MASK_NUMBER} & set(encoded)


def test_older_files_of_a_vocabulary_say_the_same(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    whole = read_published(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(BERT_PIECES) + "\n")
    assert read_published(folder).source.fingerprint == whole.source.fingerprint
    folder, _ = gpt2(tmp_path / "gpt2")
    whole = read_published(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(numbered(GPT2_PIECES)))
    merges = "\n".join(" ".join(pair) for pair in GPT2_MERGES)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    assert read_published(folder).source.fingerprint == whole.source.fingerprint


def changed(folder, changing):
    """Change a tokenizer file."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    changing(content)
    path.write_text(json.dumps(content))
    return folder


def replacing(pattern, content):
    return {"normalizer": {"type": "Replace", "pattern": pattern, "content": content}}


@pytest.mark.parametrize(
    ("make", "part", "settings"),
    [
        (big_bird, "pre_tokenizer", {"prepend_scheme": "never"}),
        (big_bird, "pre_tokenizer", {"replacement": "_"}),
        (big_bird, "pre_tokenizer", {"split": False}),
        (marian, "pre_tokenizer", {"add_prefix_space": False}),
        (big_bird, "model", {"byte_fallback": True}),
        (gpt2, "pre_tokenizer", {"use_regex": False}),
        (gpt2, "model", {"ignore_merges": True}),
        (gpt2, "model", {"byte_fallback": True}),
        (gpt2, "model", {"dropout": 0.1}),
        (gpt2, "model", {"end_of_word_suffix": "</w>"}),
        (bert, "model", {"max_input_chars_per_word": 20}),
    ],
)
def test_a_setting_that_has_no_effect_here_is_refused(tmp_path, make, part, settings):
    folder, _ = make(tmp_path / "published")
    changed(folder, lambda content: content[part].update(settings))
    with pytest.raises(CheckpointError, match=f"'{next(iter(settings))}' must be "):
        read_published(folder)


def test_only_several_spaces_may_be_replaced_and_only_by_one(tmp_path):
    folder, _ = big_bird(tmp_path / "bird")
    for content in (" ", "▁"):
        changed(folder, lambda held, c=content: held.update(replacing({"Regex": " {2,}"}, c)))
        assert read_published(folder).source.tokens("the  cat") == [" the", " cat"]
    changed(folder, lambda held: held.update(replacing({"String": "``"}, '"')))
    with pytest.raises(CheckpointError, match="'pattern' must be"):
        read_published(folder)
    changed(folder, lambda held: held.update(replacing({"Regex": " {2,}"}, "")))
    with pytest.raises(CheckpointError, match="'content' must be"):
        read_published(folder)


def test_a_cut_before_the_last_one_is_no_secret(tmp_path):
    folder, _ = big_bird(tmp_path / "bird")
    last = json.loads((folder / "tokenizer.json").read_text())["pre_tokenizer"]

    def cut_by(kind):
        cuts = {"type": "Sequence", "pretokenizers": [{"type": kind}, last]}
        changed(folder, lambda content: content.update(pre_tokenizer=cuts))
        return read_published(folder)

    assert cut_by("WhitespaceSplit").source.tokens("the cat") == [" the", " cat"]
    with pytest.raises(CheckpointError, match="'pre_tokenizer' must be 'WhitespaceSplit'"):
        cut_by("Punctuation")


def test_a_piece_that_stands_there_twice_moves_no_rows(tmp_path):
    folder, _ = marian(tmp_path / "marian")
    changed(folder, lambda content: content["model"]["vocab"].insert(5, ["▁the", -1.0]))
    with pytest.raises(CheckpointError, match=r"each piece must stand there once.*'▁the'"):
        read_published(folder)


def test_a_score_that_is_no_number_is_refused(tmp_path):
    folder, _ = marian(tmp_path / "marian")
    changed(folder, lambda content: content["model"]["vocab"].append(["x", float("nan")]))
    with pytest.raises(CheckpointError, match="with a finite score; got 'x'"):
        read_published(folder)


@pytest.mark.parametrize("number", [-1, "7", None])
def test_an_added_piece_needs_a_number_from_0_on(tmp_path, number):
    folder, _ = bert(tmp_path / "bert")
    piece = {"content": "[NEW]", "id": number}
    changed(folder, lambda content: content.update(added_tokens=[piece]))
    with pytest.raises(CheckpointError, match="must give each piece a number"):
        read_published(folder)


@pytest.mark.parametrize(
    "damage",
    [
        {"added_tokens": [5]},
        {"added_tokens": [{"id": 3}]},
        {"added_tokens": 7},
        {"model": {"type": "Unigram", "vocab": [["a"]]}},
        {"model": {"type": "Unigram", "vocab": [["a", "b"]]}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [4]}},
        {"normalizer": {"type": "Sequence", "normalizers": ["Strip"]}},
    ],
)
def test_a_damaged_tokenizer_file_is_named(tmp_path, damage):
    folder, _ = big_bird(tmp_path / "bird")
    changed(folder, lambda content: content.update(damage))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json' is damaged"):
        read_published(folder)


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_piece(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(BERT_PIECES) + "\n")
    plain = read_published(folder)
    for name in ("vocab.txt", "config.json"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert read_published(folder).source.pieces == plain.source.pieces


def test_a_list_of_pieces_that_is_no_text_is_named(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(
        CheckpointError, match=r"vocab\.txt' is not UTF-8 \(byte 0xff at offset 6\)"
    ):
        read_published(folder)


def test_a_model_of_hidden_words_needs_something_to_hide_them_with(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    pieces = numbered(["[GONE]" if piece == "[MASK]" else piece for piece in BERT_PIECES])
    changed(folder, lambda content: content["model"].update(vocab=pieces))
    with pytest.raises(CheckpointError, match=r"has no piece \(\[MASK\] or <mask>\) to hide"):
        read_published(folder)


def test_a_damaged_table_of_characters_is_refused(tmp_path):
    folder, _ = big_bird(tmp_path / "bird")
    import_run(folder, tmp_path / "run")
    path = tmp_path / "run" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "/////w=="}
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="is damaged"):
        Subwords.load(path)
    shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("make", [bert, gpt2, marian])
def test_a_file_that_does_not_say_its_kind_is_read_by_what_it_has(tmp_path, make):
    folder, _ = make(tmp_path / "published")
    whole = read_published(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    del content["model"]["type"]
    if "merges" in content["model"]:
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert read_published(folder).source.fingerprint == whole.source.fingerprint
