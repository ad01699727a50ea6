"""Image encoders: pictures become annotations, one vector for every cell of a grid.

    pictures (b 3 y x, 0 … 255) → convolutions → grid (b d r c) → annotations (b l d)
    r = ceil(y / p),   c = ceil(x / p),   l = r · c,   cell (i, j) is annotation i · c + j

Cell (i, j) stands for the p × p pixels from (i p, j p) on. Where p does not divide a picture, the
last row and column of cells reach over its edge.

Paper: Xu et al. 2015 (Show, Attend and Tell), section 3.1.1: "annotation vectors".
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.errors import ShapeError


class GridSize(NamedTuple):
    """How many cells a picture has."""

    rows: int
    columns: int

    @property
    def n_cells(self) -> int:
        """Rows times columns."""
        return self.rows * self.columns


class ImageEncoder(nn.Module, ABC):
    """The interface of a captioner's picture encoder."""

    name: ClassVar[str]
    """Its name in a recipe."""
    d_annotation: int
    """Width of an annotation."""
    pixels_per_cell: int
    """The side of a cell in pixels."""
    is_frozen: bool = False
    """Whether its weights are frozen, so that annotations can be computed once and kept."""

    @abstractmethod
    def forward(self, pictures: UInt8[Tensor, "b 3 y x"]) -> Float[Tensor, "b l d"]:
        """The annotations of pictures, cells row by row."""

    def grid_of(self, height: int, width: int | None = None) -> GridSize:
        """The cells of a picture of so many pixels; a square one unless the width is given.

        A side shorter than one cell is refused.
        """
        width, cell = height if width is None else width, self.pixels_per_cell
        if min(height, width) < cell:
            raise ShapeError(
                f"{self.name}: a picture must be at least {cell} x {cell} pixels, the size of one "
                f"cell, got {height} x {width}. Enlarge the pictures, or take an encoder with "
                "smaller cells."
            )
        return GridSize(-(-height // cell), -(-width // cell))

    def load_published(self) -> None:
        """Take over published weights; an encoder that has none starts from random ones.

        The constructor reads no file: a new training calls this once, and a finished run loads its
        own weights.
        """


def standardise(
    pictures: Tensor, *, mean: Tensor | float, spread: Tensor | float, dtype: torch.dtype
) -> Tensor:
    """Pixels from 0 to 255 as numbers near zero: (x - mean) / spread."""
    if pictures.dtype != torch.uint8:
        raise ShapeError(
            f"encoder: pictures must be whole numbers from 0 to 255 (torch.uint8), got "
            f"{pictures.dtype}. Annotations that are computed already go to the decoder."
        )
    # in channels-last order, convolutions are up to twice as fast
    plain = pictures.to(dtype, memory_format=torch.channels_last)
    return (plain - mean) / spread


def as_annotations(grid: Float[Tensor, "b d r c"]) -> Float[Tensor, "b l d"]:
    """The cells of a grid, row by row."""
    return grid.permute(0, 2, 3, 1).flatten(1, 2)


def freeze(module: nn.Module) -> None:
    """Turn every parameter into a buffer, which is saved under its name but not trained."""
    for part in module.modules():
        for name, weight in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, weight.detach())
