"""Image encoders: pictures become annotations, one vector for every cell of a grid.

    pictures (b 3 y x, 0 … 255) → convolutions → grid (b d r c) → annotations (b l d)
    r = ceil(y / p),   c = ceil(x / p),   l = r · c,   cell (i, j) is annotation i · c + j

Cell (i, j) stands for the p × p pixels from (i p, j p) on. Where p does not divide a picture, the
last row and column of cells reach over its edge.

Paper: Xu et al. 2015 (Show, Attend and Tell), section 3.1.1: "annotation vectors".
"""

from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.errors import ShapeError


class GridSize(NamedTuple):
    """How many cells a picture has."""

    rows: int
    columns: int

    @property
    def n_cells(self) -> int:
        """All of them."""
        return self.rows * self.columns


class ImageEncoder(Protocol):
    """What a captioner asks of the part that looks at pictures."""

    d_annotation: int
    """Width of an annotation."""
    pixels_per_cell: int
    """Pixels that a cell is wide and high."""
    is_frozen: bool
    """Whether it never learns, so that its annotations can be computed once and kept."""

    def __call__(self, pictures: UInt8[Tensor, "b 3 y x"]) -> Float[Tensor, "b l d"]:
        """The annotations of pictures, cells row by row."""
        ...

    def grid_of(self, height: int, width: int | None = None) -> GridSize:
        """The cells of a picture of so many pixels; a square one unless the width is given."""
        ...

    def load_published(self, cache: Path | None = None) -> None:
        """Take over the weights that somebody published, if there are any for this encoder.

        Making an encoder reads no file: a new training calls this once, and a finished one brings
        its own weights.
        """
        ...


def grid_of(
    height: int, width: int | None = None, *, pixels_per_cell: int, encoder: str
) -> GridSize:
    """The cells of a picture; a side shorter than one cell is refused.

    >>> grid_of(64, 100, pixels_per_cell=8, encoder="residual")
    GridSize(rows=8, columns=13)
    """
    width = height if width is None else width
    if min(height, width) < pixels_per_cell:
        raise ShapeError(
            f"{encoder}: a picture must be at least {pixels_per_cell} x {pixels_per_cell} pixels, "
            f"the size of one cell, got {height} x {width}. Enlarge the pictures, or take an "
            "encoder with smaller cells."
        )
    return GridSize(-(-height // pixels_per_cell), -(-width // pixels_per_cell))


def standardise(
    pictures: Tensor, *, mean: Tensor | float, spread: Tensor | float, dtype: torch.dtype
) -> Tensor:
    """Whole numbers from 0 to 255 as numbers near zero: (x - mean) / spread."""
    if pictures.dtype != torch.uint8:
        raise ShapeError(
            f"encoder: pictures must be whole numbers from 0 to 255 (torch.uint8), got "
            f"{pictures.dtype}. Annotations that are computed already go to the decoder."
        )
    # with a pixel's colours side by side, convolutions are up to twice as fast
    plain = pictures.to(dtype, memory_format=torch.channels_last)
    return (plain - mean) / spread


def fill_cells(x: Float[Tensor, "b ch y x"], pixels_per_cell: int) -> Float[Tensor, "b ch y2 x2"]:
    """Zeros below and to the right, until whole cells cover the picture."""
    height, width = x.shape[-2:]
    return pad(x, (0, -width % pixels_per_cell, 0, -height % pixels_per_cell))


def as_annotations(grid: Float[Tensor, "b d r c"]) -> Float[Tensor, "b l d"]:
    """The cells of a grid, row by row."""
    return grid.permute(0, 2, 3, 1).flatten(1, 2)


def freeze(module: nn.Module) -> None:
    """Turn every parameter into a buffer: it is saved under its name, and nobody trains it."""
    for part in module.modules():
        for name, weight in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, weight.detach())
