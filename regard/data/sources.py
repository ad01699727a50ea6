"""Sources: what a model is given of the numbers that stand for a source.

texts         the numbers themselves, padded to one length
pictures      one number a row, the picture's row in a store → its pixels
annotations   the same → what a frozen encoder made of the picture, once
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data.annotation_store import AnnotationStore
from regard.data.augmentation import augmented
from regard.data.kinds import PAD
from regard.data.picture_store import PictureStore

Read = tuple[Shaped[Tensor, "b ..."], Int64[Tensor, " b"]]
"""What a model reads, and the length of each row of it."""


@runtime_checkable
class Sources(Protocol):
    """Gives a batch its source."""

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """The sources of some rows of a corpus.

        Args:
            ids: the numbers of all sources, one after another.
            begins: where each begins.
            rows: which are asked for.
            multiple: what lengths are rounded up to.
        """
        ...

    def in_epoch(self, epoch: int) -> "Sources":
        """As they are in an epoch of training."""
        ...


@final
@dataclass(frozen=True)
class TokenRows:
    """The numbers themselves."""

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """Rows with padding behind them."""
        return padded(ids, begins, rows, multiple)

    def in_epoch(self, epoch: int) -> "TokenRows":
        """The same in all."""
        return self


@final
@dataclass(frozen=True)
class Augmenting:
    """How pictures differ from epoch to epoch (augmenting.py)."""

    seed: int
    margin: int
    may_mirror: bool


@final
@dataclass(frozen=True)
class PictureRows:
    """Pixels from a store, a little different in every epoch where that is wanted."""

    store: PictureStore
    augmenting: Augmenting | None = None
    epoch: int = 0

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """Pictures, each of length 1."""
        pictures = self.store.pictures(_numbers(ids, begins, rows))
        if self.augmenting is not None:
            pictures = augmented(
                pictures,
                torch.from_numpy(np.asarray(rows, dtype=np.int64)),
                seed=self.augmenting.seed,
                epoch=self.epoch,
                margin=self.augmenting.margin,
                may_mirror=self.augmenting.may_mirror,
            )
        return pictures, _ones(rows)

    def in_epoch(self, epoch: int) -> "PictureRows":
        """With the differences of this epoch."""
        return self if self.augmenting is None else replace(self, epoch=epoch)


@final
@dataclass(frozen=True)
class AnnotationRows:
    """Annotations from a store."""

    store: AnnotationStore

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """Annotations, each of length 1."""
        return self.store.annotations(_numbers(ids, begins, rows)), _ones(rows)

    def in_epoch(self, epoch: int) -> "AnnotationRows":
        """The same in all."""
        return self


@final
@dataclass(frozen=True)
class PictureNumbers:
    """The addresses of a store as numbers, for `write_corpus`."""

    store: PictureStore

    @property
    def fingerprint(self) -> str:
        """What the pictures were made into; which they are is the store's to say."""
        return f"pictures/{self.store.framing_name}/{self.store.size}/{len(self.store)}"

    def __len__(self) -> int:
        return len(self.store)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The row of each address."""
        return [[self.store.row(address)] for address in texts]


def padded(ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
    """Every row's ids, all in one reading, with padding behind them."""
    first, lengths = begins[rows], begins[rows + 1] - begins[rows]
    across = np.arange(rounded(lengths.max(keepdims=True), multiple)[0])
    is_there = across < lengths[:, None]
    # past its end a row reads its own first id again, which is then hidden
    table = ids[np.where(is_there, first[:, None] + across, first[:, None])].astype(np.int64)
    return torch.from_numpy(np.where(is_there, table, PAD)), torch.from_numpy(lengths)


def rounded(lengths: Int64[np.ndarray, " n"], multiple: int) -> Int64[np.ndarray, " n"]:
    """Lengths, each up to the next multiple."""
    return -(-lengths // multiple) * multiple


def _numbers(ids: np.ndarray, begins: np.ndarray, rows: np.ndarray) -> Int64[np.ndarray, " b"]:
    return np.asarray(ids[begins[rows]], dtype=np.int64)


def _ones(rows: np.ndarray) -> Int64[Tensor, " b"]:
    return torch.ones(len(rows), dtype=torch.int64)
