"""Batches: every row once, never over the budget, a pure function of seed and epoch."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import Corpus, Example, Subwords, collate, write_corpus
from regard.data.batches import epoch_batches, padding_share, too_long
from regard.data.subword_kinds import WORDS
from regard.errors import DataError, SettingError


def _corpus(lengths):
    """A corpus of rows with these (source, target) lengths; what they say does not matter."""
    begins = [np.cumsum([0, *(pair[side] for pair in lengths)]) for side in (0, 1)]
    ids = [np.full(int(begin[-1]), 2, dtype=np.uint16) for begin in begins]
    return Corpus(Path("nowhere"), *ids, *begins, np.arange(len(lengths)), ("", ""))


LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=120)


@settings(max_examples=60)
@given(
    lengths=LENGTHS,
    budget=st.integers(1, 300),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 9),
)
def test_every_row_stands_in_one_batch_within_the_budget(lengths, budget, seed, epoch):
    corpus = _corpus(lengths)
    asked = {"target_tokens": budget, "seed": seed, "epoch": epoch}
    batches = epoch_batches(corpus, **asked)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for rows in batches:
        longest = max(lengths[row][1] for row in rows)
        assert longest * len(rows) <= budget or len(rows) == 1
    again = epoch_batches(corpus, **asked)
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in batches]


def _like_sentences(n):
    draws = np.random.default_rng(0)
    targets = np.maximum(2, draws.gamma(6, 2.6, n)).astype(int)
    sources = np.maximum(2, targets + draws.normal(0, 3, n)).astype(int)
    return _corpus(list(zip(sources.tolist(), targets.tolist(), strict=True)))


def test_little_is_padding_and_batches_are_full():
    corpus = _like_sentences(20_000)
    batches = epoch_batches(corpus, target_tokens=4096, seed=1, epoch=0)
    assert padding_share(corpus, batches) < 0.1
    tokens = [int(corpus.target_lengths[rows].sum()) for rows in batches]
    assert np.mean(tokens) > 0.8 * 4096
    # a batch of rows at random is what the order saves us from
    mixed = np.array_split(np.random.default_rng(0).permutation(20_000), len(batches))
    assert padding_share(corpus, mixed) > 0.4


def test_other_epochs_and_seeds_bring_other_rows_together():
    corpus = _like_sentences(5_000)

    def neighbours(seed, epoch):
        batches = epoch_batches(corpus, target_tokens=1024, seed=seed, epoch=epoch)
        return {frozenset(rows.tolist()) for rows in batches}

    first = neighbours(0, 0)
    assert len(first & neighbours(0, 1)) < 0.05 * len(first)
    assert len(first & neighbours(1, 0)) < 0.05 * len(first)


def test_short_batches_do_not_all_come_first():
    corpus = _like_sentences(5_000)
    batches = epoch_batches(corpus, target_tokens=512, seed=0, epoch=0)
    means = [corpus.target_lengths[rows].mean() for rows in batches]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.2


def test_padding_share_is_counted_on_both_sides():
    corpus = _corpus([(1, 4), (3, 4)])
    assert padding_share(corpus, [np.array([0, 1])]) == pytest.approx(1 - 12 / 14)
    assert padding_share(corpus, [np.array([0]), np.array([1])]) == 0


def test_a_row_longer_than_the_budget_is_a_batch_of_its_own():
    batches = epoch_batches(_corpus([(1, 9), (1, 1), (1, 1)]), target_tokens=4, seed=0, epoch=0)
    assert sorted(map(len, batches)) == [1, 2]


def test_rows_over_a_limit_are_named_and_can_be_left_out():
    corpus = _corpus([(3, 3), (9, 4), (2, 8), (9, 9)])
    asked = {"target_tokens": 20, "seed": 0, "epoch": 0}
    long = too_long(corpus, max_source=8, max_target=7)
    assert long.tolist() == [1, 2, 3]
    assert too_long(corpus).tolist() == []
    kept = np.setdiff1d(np.arange(4), long)
    batches = epoch_batches(corpus, **asked, rows=kept)
    assert [rows.tolist() for rows in batches] == [[0]]


@pytest.mark.parametrize(("name", "value"), [("target_tokens", 0), ("seed", -1), ("epoch", -1)])
def test_impossible_settings_are_refused(name, value):
    asked = {"target_tokens": 20, "seed": 0, "epoch": 0, name: value}
    with pytest.raises(SettingError, match=rf"batches: {name} must be at least \d, got {value}"):
        epoch_batches(_corpus([(1, 1)]), **asked)


def test_a_batch_holds_its_rows_padded_with_zeros(tmp_path):
    words = Subwords.train(["a b c d"], kind=WORDS, size=8)
    examples = [Example("a", ("b c",)), Example("a b c d", ("d",)), Example("", ("",))]
    corpus = write_corpus(tmp_path / "corpus", examples, words, words)
    batch = collate(corpus, np.array([2, 1]))
    assert batch.source.tolist() == [[2, 0, 0, 0, 0], [4, 5, 6, 7, 2]]
    assert batch.target.tolist() == [[2, 0], [7, 2]]
    assert batch.source_lengths.tolist() == [1, 5]
    assert batch.target_lengths.tolist() == [1, 2]
    assert batch.rows.tolist() == [2, 1]
    assert batch.source.dtype == batch.rows.dtype == torch.int64
    wide = collate(corpus, np.array([0]), pad_to_multiple=4)
    assert (wide.source.shape, wide.target.shape) == ((1, 4), (1, 4))
    assert wide.target.tolist() == [[5, 6, 2, 0]]


@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_past_the_vocabulary_are_an_error_where_their_rows_are_read(tmp_path, side):
    subwords = Subwords.train(["a b c d"], kind=WORDS, size=8)
    path = tmp_path / "corpus"
    write_corpus(path, [Example("a", ("b",)), Example("c d", ("d c",))], subwords, subwords)
    ids = np.memmap(path / f"{side}.bin", dtype="<u2", mode="r+")
    ids[-2] = 60_000
    ids.flush()
    # opening reads no id: a corpus may be larger than memory
    corpus = Corpus.open(path)
    assert len(collate(corpus, np.array([0])).rows) == 1
    said = rf"corpus: '.*corpus' is damaged: {side}\.bin holds ids past the {len(subwords)} of its"
    with pytest.raises(DataError, match=said):
        collate(corpus, np.array([0, 1]))
    with pytest.raises(DataError, match=said):
        getattr(corpus, side)(1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_of_a_corpus_from_before_sizes_were_written_are_read(tmp_path, side):
    subwords = Subwords.train(["a b c d"], kind=WORDS, size=8)
    path = write_corpus(tmp_path / "corpus", [Example("a", ("b",))], subwords, subwords).path
    facts = json.loads((path / "corpus.json").read_text())
    del facts[side]["size"]
    (path / "corpus.json").write_text(json.dumps(facts))
    assert collate(Corpus.open(path), np.array([0])).rows.tolist() == [0]
