"""Feature cache (Show, Attend and Tell's "annotations"): a frozen encoder's outputs, on disk.

    annotations.bin     n × l × d numbers of 16 bits: for each picture its cells, row by row
    annotations.json    how many, and the encoder that made them

They are computed once for each picture. Rows are those of the picture store they were made from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float16, Int64, UInt8
from torch import Tensor

from regard.data.mapped_arrays import ArrayFolder, new_folder, write_facts
from regard.data.picture_store import PictureStore
from regard.errors import DataError, SettingError, ShapeError

STORE = "annotations"
FACTS = {"count": int, "cells": int, "d_cell": int, "maker": str}


@final
@dataclass(frozen=True)
class AnnotationStore:
    """Annotations, read from disk as they are asked for."""

    path: Path
    numbers: Float16[np.ndarray, "n l d"]
    maker: str
    """The encoder that made them and its settings, as `write_annotations` was told."""

    @classmethod
    def open(cls, path: Path) -> "AnnotationStore":
        """Map a store that `write_annotations` wrote; one that is damaged is refused."""
        folder = ArrayFolder(path, STORE)
        facts = folder.facts("annotations.json", FACTS)
        shape = (facts["count"], facts["cells"], facts["d_cell"])
        return cls(path, folder.numbers("annotations.bin", "<f2", shape), facts["maker"])

    def __len__(self) -> int:
        return len(self.numbers)

    def annotations(self, rows: Int64[np.ndarray, " b"]) -> Float16[Tensor, "b l d"]:
        """A copy of these rows."""
        return torch.from_numpy(np.asarray(self.numbers[rows]))


def write_annotations(
    path: Path,
    pictures: PictureStore,
    annotate: Callable[[UInt8[Tensor, "b 3 y x"]], Float[Tensor, "b l d"]],
    *,
    maker: str,
    chunk: int = 64,
) -> AnnotationStore:
    """Annotate every picture of a store into a new folder, `chunk` at a time, and open it.

    `annotate` may move pictures to a device and cells back; `maker` names the encoder, so that its
    annotations are not mistaken for another encoder's.
    """
    if chunk < 1:
        raise SettingError(f"{STORE}: chunk must be at least 1, got {chunk}.")
    with new_folder(path, STORE) as folder:
        shape: tuple[int, ...] = ()
        with (folder / "annotations.bin").open("wb") as file:
            for first in range(0, len(pictures), chunk):
                rows = np.arange(first, min(first + chunk, len(pictures)))
                with torch.no_grad():
                    made = annotate(pictures.pictures(rows))
                shape = shape or tuple(made.shape[1:])
                if tuple(made.shape) != (len(rows), *shape) or len(shape) != 2:
                    raise ShapeError(
                        f"{STORE}: expected (pictures, cells, width) for rows {first} to "
                        f"{rows[-1]}, {(len(rows), *shape)}, got {tuple(made.shape)}."
                    )
                _write(file, made, first)
        cells, d_cell = shape
        write_facts(
            folder / "annotations.json",
            {"count": len(pictures), "cells": cells, "d_cell": d_cell, "maker": maker},
        )
    return AnnotationStore.open(path)


def _write(file: BufferedIOBase, made: Tensor, first: int) -> None:
    numbers = made.to("cpu", torch.float16)
    is_finite = numbers.isfinite().flatten(1).all(dim=1)
    if not bool(is_finite.all()):
        row = first + int((~is_finite).nonzero()[0])
        raise DataError(
            f"{STORE}: row {row} holds numbers that 16 bits cannot (the largest is 65,504, here "
            f"{made.abs().max():.3g}). Scale or normalise what the encoder gives."
        )
    file.write(numbers.contiguous().numpy().astype("<f2", copy=False).tobytes())
