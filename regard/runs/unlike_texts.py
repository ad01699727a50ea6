"""Unlike texts: notices a text that has little in common with all that a run learned from.

A model answers any text, and where it looked at one of another kind means little. Three pieces in a
row are familiar if they stood together anywhere in the training texts. A text is unlike them if

    more than half of its rows of three are unfamiliar, and
    more of them than in 95 of 100 texts of the validation data

The run keeps both as numbers (`corpus/`). Without them only pieces are judged: a text is unlike if
the vocabulary has no piece for more than half of its characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int64

from regard.data.corpus import Corpus
from regard.data.subword_kinds import EOS, MASK_NUMBER, UNK
from regard.data.subwords import Subwords
from regard.data.unknown_words import unknown_rate
from regard.errors import RegardError
from regard.runs.trained import Trained

WIDTH = 3
"""Pieces of a row that must have stood together."""
MAX_IDS = 1_000_000
"""How many pieces of the training texts are read, from the first on."""
N_VALID = 300
"""How many validation texts are compared."""
HALF = 0.5
PERCENTILE = 95

Rows = Int64[np.ndarray, " windows"]
"""Rows of pieces, each as one number."""


@final
@dataclass(frozen=True)
class Familiar:
    """The rows of pieces that a run learned from, and how many are new in a usual text."""

    rows: Rows
    n_pieces: int
    """Of the vocabulary."""
    n_read: int
    """Pieces of training texts that were read."""
    usual: float
    """The share of unfamiliar rows that 95 of 100 validation texts do not exceed."""

    def unfamiliar(self, ids: Sequence[int]) -> float:
        """The share of a text's rows that are not familiar; 0 for a text too short to have one."""
        return _share(self.rows, np.asarray(ids, dtype=np.int64), self.n_pieces)


def familiar_rows(trained: Trained) -> Familiar | None:
    """What a run's corpus tells, or None if there is none or if the run looks at pictures."""
    if not trained.task.sources.has_lengths:
        return None
    try:
        train, valid = (_open(trained, split) for split in ("train", "valid"))
    except (RegardError, OSError):
        return None
    if train is None or valid is None:
        return None
    n_pieces = trained.loaded.source.n_ids
    learned = np.concatenate(_ids(train, trained))
    rows = np.unique(_rows(learned, n_pieces))
    shares = [
        _share(rows, _text_of(valid, row), n_pieces) for row in range(min(len(valid), N_VALID))
    ]
    usual = float(np.percentile(shares, PERCENTILE)) if shares else 0.0
    return Familiar(rows, n_pieces, len(learned), usual)


def unlike_note(trained: Trained, familiar: Familiar | None, text: str) -> str | None:
    """What is unusual about a text, and how that was judged; None if it is like the others."""
    source, read = trained.loaded.source, trained.read(text)
    unknown = unknown_rate(source, [read])
    if unknown > HALF:
        return (
            f"Unlike all training texts: the vocabulary has no piece for {unknown:.0%} of its "
            "characters. The answer, and where the model looked, mean little."
        )
    if familiar is None:
        return None
    share = familiar.unfamiliar(_with_end(source, read))
    if share <= max(HALF, familiar.usual):
        return None
    return (
        f"Unlike all training texts: {share:.0%} of its rows of {WIDTH} neighbouring pieces never "
        f"stood there, but at most {familiar.usual:.0%} in 95 of 100 validation texts (judged by "
        f"{familiar.n_read:,} pieces that were learned from). The answer, and where the model "
        "looked, may mean little."
    )


def _open(trained: Trained, split: str) -> Corpus | None:
    folder: Path = trained.home / "corpus" / split
    return Corpus.open(folder) if folder.is_dir() else None


def _ids(corpus: Corpus, trained: Trained) -> list[Int64[np.ndarray, " n"]]:
    """Pieces that the model reads: sources; targets too where both have one vocabulary."""
    loaded = trained.loaded
    is_joint = loaded.source.fingerprint == loaded.target.fingerprint
    sides = (corpus.source_ids, corpus.target_ids) if is_joint else (corpus.source_ids,)
    return [np.asarray(side[:MAX_IDS], dtype=np.int64) for side in sides]


def _text_of(corpus: Corpus, row: int) -> Int64[np.ndarray, " n"]:
    """A row as it would be asked: its source, or its target where it has none."""
    source = np.asarray(corpus.source(row), dtype=np.int64)
    return source if len(source) > WIDTH else np.asarray(corpus.target(row), dtype=np.int64)


def _with_end(source: Subwords, text: str) -> list[int]:
    ids = source.encode(text)
    # what is hidden stood nowhere, and is not held against a text
    return [*(i for i in ids if not (source.has_mask and i == MASK_NUMBER)), EOS]


def _rows(ids: Int64[np.ndarray, " n"], n_pieces: int) -> Rows:
    """Every row of neighbours as one number; n_pieces³ stays below 2⁶³ up to two million kinds."""
    if len(ids) < WIDTH:
        return np.empty(0, dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, WIDTH)
    return windows @ np.array([n_pieces**place for place in range(WIDTH)], dtype=np.int64)


def _share(known: Rows, ids: Int64[np.ndarray, " n"], n_pieces: int) -> float:
    rows = _rows(ids, n_pieces)
    if not len(rows):
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(ids, WIDTH)
    is_new = ~np.isin(rows, known) | (windows == UNK).any(axis=1)
    return float(is_new.mean())
