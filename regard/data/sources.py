"""Sources: turns the source ids of a batch into the tensors that a model reads.

texts                   the ids themselves, padded to one length
pictures, annotations   one id a row, the picture's row in a store → its pixels, or its
                        annotations, computed once by a frozen encoder
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data.augmentation import Augmentation
from regard.data.subword_kinds import PAD

Read = tuple[Shaped[Tensor, "b ..."], Int64[Tensor, " b"]]
"""The tensor that a model reads, and the length of each of its rows."""


@runtime_checkable
class Sources(Protocol):
    """Gives a batch its source."""

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """The sources of some rows; `ids` holds those of all rows, each from its begin on.

        Lengths are rounded up to `multiple`.
        """
        ...

    def in_epoch(self, epoch: int) -> "Sources":
        """The sources as they are in an epoch of training."""
        ...


@final
@dataclass(frozen=True)
class TokenRows:
    """Gives token ids as they are."""

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """Rows with padding behind them."""
        return padded_rows(ids, begins, rows, multiple)

    def in_epoch(self, epoch: int) -> "TokenRows":
        """Ids are the same in every epoch."""
        return self


@final
@dataclass(frozen=True)
class StoredRows:
    """Gives rows of a store, with augmentation in training if there is one."""

    read: Callable[[Int64[np.ndarray, " b"]], Tensor]
    """A copy of some rows: `PictureStore.pictures` or `AnnotationStore.annotations`."""
    augmentation: Augmentation | None = None
    epoch: int = 0

    def fetch(self, ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
        """Pictures or annotations, each of length 1."""
        found = self.read(np.asarray(ids[begins[rows]], dtype=np.int64))
        if self.augmentation is not None:
            numbers = torch.from_numpy(np.asarray(rows, dtype=np.int64))
            found = self.augmentation.of(found, numbers, self.epoch)
        return found, torch.ones(len(rows), dtype=torch.int64)

    def in_epoch(self, epoch: int) -> "StoredRows":
        """The same rows with the augmentation of this epoch."""
        return self if self.augmentation is None else replace(self, epoch=epoch)


def padded_rows(ids: np.ndarray, begins: np.ndarray, rows: np.ndarray, multiple: int) -> Read:
    """Every row's ids, all in one reading, with padding behind them."""
    first, lengths = begins[rows], begins[rows + 1] - begins[rows]
    across = np.arange(-(-lengths.max() // multiple) * multiple)
    is_there = across < lengths[:, None]
    # past its end a row reads its own first id again, which padding then overwrites
    table = ids[np.where(is_there, first[:, None] + across, first[:, None])].astype(np.int64)
    return torch.from_numpy(np.where(is_there, table, PAD)), torch.from_numpy(lengths)
