"""Corpora: what is written is what is read, whole or not at all."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.corpus import Corpus, write_corpus
from regard.data.examples import Example
from regard.data.subword_kinds import WORDS
from regard.data.subwords import Subwords
from regard.errors import DataError

BPE = Subwords.train(["the cat sat on the mat, 我 über"], size=280)
SMALL = Subwords.train(["a b c d e f g"], kind=WORDS, size=11)
EXAMPLES = [
    Example("the cat", ("a b c",)),
    Example("", ("", "b")),
    Example("我 sat  on", ("g f e d c b a",)),
]


def _corpus(tmp_path, chunk=4096):
    return write_corpus(tmp_path / "corpus", EXAMPLES, BPE, SMALL, chunk=chunk)


def _rows(corpus):
    return [(corpus.source(i).tolist(), corpus.target(i).tolist()) for i in range(len(corpus))]


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_rows_are_the_ids_of_both_sides_with_eos(tmp_path, chunk):
    corpus = _corpus(tmp_path, chunk)
    wanted = [
        ([*BPE.encode(e.source), 2], [*SMALL.encode(target), 2])
        for e in EXAMPLES
        for target in e.targets
    ]
    assert _rows(corpus) == wanted
    assert corpus.examples.tolist() == [0, 1, 1, 2]
    assert corpus.source_lengths.tolist() == [len(source) for source, _ in wanted]
    assert corpus.target_lengths.tolist() == [len(target) for _, target in wanted]
    assert corpus.fingerprints == (BPE.fingerprint, SMALL.fingerprint)


@settings(max_examples=20)
@given(
    texts=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=9),
    chunk=st.integers(1, 5),
)
def test_every_text_can_be_read_back(tmp_path_factory, texts, chunk):
    path = tmp_path_factory.mktemp("corpora") / "corpus"
    examples = (Example(source, (target,)) for source, target in texts)
    corpus = write_corpus(path, examples, BPE, BPE, chunk=chunk)
    read = [(BPE.decode(source), BPE.decode(target)) for source, target in _rows(corpus)]
    assert read == texts


def test_ids_are_mapped_from_disk_and_not_loaded(tmp_path):
    corpus = _corpus(tmp_path)
    assert isinstance(corpus.source_ids, np.memmap)
    assert isinstance(corpus.source_begins, np.memmap)
    assert np.shares_memory(corpus.source(2), corpus.source_ids)
    assert corpus.source_ids.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        corpus.source(0)[0] = 5


def test_large_vocabularies_take_wider_numbers(tmp_path):
    words = Subwords.train([" ".join(f"w{i}" for i in range(70_000))], kind=WORDS, size=80_000)
    examples = [Example("w1 w69999", ("w9",))]
    corpus = write_corpus(tmp_path / "corpus", examples, words, words)
    assert corpus.source_ids.dtype == np.uint32
    assert words.decode(corpus.source(0).tolist()) == "w1 w69999"


def test_a_stream_is_read_once_and_only_a_chunk_ahead(tmp_path):
    read = []

    def stream():
        for i in range(10):
            written = tmp_path / "corpus.partial" / "source.bin"
            read.append(written.stat().st_size if written.exists() else None)
            yield Example("the " * 4000, (str(i),))

    write_corpus(tmp_path / "corpus", stream(), BPE, SMALL, chunk=2)
    assert len(read) == 10
    assert read[2] == 0 or read[2] < read[9]


def test_nothing_is_left_half_written(tmp_path):
    def failing():
        yield EXAMPLES[0]
        raise DataError("the reader stops")

    path = tmp_path / "corpus"
    with pytest.raises(DataError, match="the reader stops"):
        write_corpus(path, failing(), BPE, SMALL, chunk=1)
    assert list(tmp_path.iterdir()) == []
    # what a killed run left beside does not matter to the next one
    (tmp_path / "corpus.partial").mkdir()
    assert len(_corpus(tmp_path)) == 4
    assert list(tmp_path.iterdir()) == [path]
    assert {file.name for file in path.iterdir()} == {
        "corpus.json", "examples.npy", "source.bin", "source.npy", "target.bin", "target.npy",
    }  # fmt: skip


def test_a_corpus_is_never_written_over(tmp_path):
    _corpus(tmp_path)
    with pytest.raises(DataError, match="exists; take it away, or open it as it is"):
        _corpus(tmp_path)


def test_a_corpus_of_nothing_is_refused(tmp_path):
    with pytest.raises(DataError, match="there are no examples to write"):
        write_corpus(tmp_path / "corpus", [], BPE, SMALL)
    assert list(tmp_path.iterdir()) == []


def _numbers(*values):
    return lambda path: np.save(path, np.array(values))


def _facts(path):
    path.write_text(json.dumps({"version": 2}))


DAMAGE = {
    "source.bin": (lambda path: path.write_bytes(b"12345"), r"source.bin has 5 bytes; \d+ ids"),
    "target.bin": (lambda path: path.unlink(), r"target.bin has 0 bytes; \d+ ids take"),
    "source.npy": (_numbers(0, 9, 7, 8, 40), r"source.npy does not rise from 0 to \d+"),
    "target.npy": (_numbers(0.5, 1.5), "target.npy is not a row of 64-bit numbers"),
    "examples.npy": (_numbers(0, 1), "speak of 4, 4 and 2 rows"),
    "corpus.json": (_facts, "corpus.json does not say what it should"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_corpus_is_refused(tmp_path, name):
    path = _corpus(tmp_path).path
    damage, said = DAMAGE[name]
    damage(path / name)
    with pytest.raises(DataError, match=rf"is damaged: .*{said}.*Delete this folder"):
        Corpus.open(path)


def test_an_index_that_would_run_code_is_refused(tmp_path):
    path = _corpus(tmp_path).path
    np.save(path / "source.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(DataError, match=r"source\.npy cannot be read \(Array can't be memory-mapp"):
        Corpus.open(path)


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"corpus\.json is .* Delete this folder"):
        Corpus.open(tmp_path)
