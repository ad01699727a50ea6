"""Batches: rows of similar lengths together, as many as a budget of target tokens allows.

    rows × padded target length <= target_tokens

Where targets are labels, the budget is one of source tokens (`Corpus.counts_sources`).
Every row is in exactly one batch of an epoch. The rows of each batch and the order of the batches
are a pure function of seed and epoch, so that a run can be resumed in the middle of an epoch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data.corpus import Corpus
from regard.data.sources import padded_rows
from regard.errors import SettingError

BUCKET = 2
"""The largest difference of counted lengths in a bucket; a larger one mixes and pads more."""


@dataclass(frozen=True)
class Batch:
    """Rows padded to one length on either side; every row ends in eos before its padding.

    A source may also be pictures, or annotations (sources.py).
    """

    source: Shaped[Tensor, "b ..."]
    target: Int64[Tensor, "b t"]
    source_lengths: Int64[Tensor, " b"]
    target_lengths: Int64[Tensor, " b"]
    rows: Int64[Tensor, " b"]
    """Which rows of the corpus these are."""


def epoch_batches(
    corpus: Corpus,
    *,
    target_tokens: int,
    seed: int,
    epoch: int,
    rows: Int64[np.ndarray, " n"] | None = None,
) -> list[Int64[np.ndarray, " _"]]:
    """The batches of one epoch, each an array of row numbers.

    Args:
        corpus: where the rows are.
        target_tokens: the budget of a batch, padding counted, of target or of source tokens as the
            corpus counts. A row that is longer than the
            budget is a batch of its own.
        seed: of the whole run.
        epoch: counted from 0.
        rows: only these, for instance all but those of `too_long`; every row unless given.
    """
    for name, value, least in (("target_tokens", target_tokens, 1), ("seed", seed, 0),
                               ("epoch", epoch, 0)):  # fmt: skip
        if value < least:
            raise SettingError(f"batches: {name} must be at least {least}, got {value}.")
    chosen = np.arange(len(corpus)) if rows is None else np.asarray(rows, dtype=np.int64)
    counted = corpus.counted_lengths[chosen]
    others = corpus.target_lengths if corpus.counts_sources else corpus.source_lengths
    draws = np.random.default_rng([seed, epoch])
    order = _alike(others[chosen], counted, draws)
    batches = np.split(chosen[order], _cuts(counted[order], target_tokens))
    return [batches[i] for i in draws.permutation(len(batches)) if len(batches[i])]


def too_long(
    corpus: Corpus, *, max_source: int | None = None, max_target: int | None = None
) -> Int64[np.ndarray, " n"]:
    """The rows that pass a limit on either side, for a training to report and leave out."""
    passes = np.zeros(len(corpus), dtype=bool)
    if max_source is not None:
        passes |= corpus.source_lengths > max_source
    if max_target is not None:
        passes |= corpus.target_lengths > max_target
    return np.flatnonzero(passes)


def padding_share(corpus: Corpus, batches: Iterable[Int64[np.ndarray, " _"]]) -> float:
    """The share of all numbers in the batches, source and target, that is padding."""
    n_tokens, n_padded = 0, 0
    for lengths in (corpus.source_lengths, corpus.target_lengths):
        for rows in batches:
            n_tokens += int(lengths[rows].sum())
            n_padded += int(lengths[rows].max()) * len(rows)
    return 1 - n_tokens / n_padded if n_padded else 0.0


def collate(corpus: Corpus, rows: Int64[np.ndarray, " b"], *, pad_to_multiple: int = 1) -> Batch:
    """Read rows from the corpus and pad them; damaged ones are refused."""
    corpus.check_ids(rows)
    source, source_lengths = corpus.sources.fetch(
        corpus.source_ids, corpus.source_begins, rows, pad_to_multiple
    )
    target, target_lengths = padded_rows(
        corpus.target_ids, corpus.target_begins, rows, pad_to_multiple
    )
    return Batch(source, target, source_lengths, target_lengths, torch.tensor(rows))


def _alike(others: np.ndarray, counted: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """An order in which neighbours have similar lengths on both sides, different in every epoch."""
    # where buckets begin, and which of two almost equal rows comes first, is random:
    # otherwise the same rows would share a batch in every epoch
    buckets = (counted + draws.integers(BUCKET)) // BUCKET
    about = others + 2 * draws.random(len(others))
    # the other side rises in one bucket and falls in the next, so that a batch across the border
    # between two buckets is not one of the longest and the shortest
    return np.lexsort((np.where(buckets % 2 == 0, about, -about), buckets))


def _cuts(lengths: np.ndarray, budget: int) -> list[int]:
    """Where new batches begin: before the row with which longest row × rows passes the budget."""
    cuts, first, longest = [], 0, 0
    for place, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if place > first and longest * (place + 1 - first) > budget:
            cuts.append(place)
            first, longest = place, length
    return cuts
