"""Residual network: convolutions that learn what to add to what they were given.

    x = ρ(GN(S * picture))                stem: 4 x 4 pixels, at every other one
    x = ρ(GN(S * x))                      each stage: 2 x 2 cells become one, twice as wide
    x = ρ(x + GN(B * ρ(GN(A * x))))       and its blocks: A and B see 3 x 3 cells
    GN(x)[c] = g[c] (x[c] - mean) / sqrt(var + eps) + h[c],   ρ(x) = max(x, 0)
    a = [x; column; row]                  if cells know where they are, each from -1 to 1

With 3 x 3 cells in every block, a cell of the last grid sees far beyond its own pixels: in the
default network 58 pixels of 64. With a `last_kernel` of 1 the blocks of the last stage see their
own cell alone, and it sees 26: its own pixels and 9 around them, and what lies elsewhere in the
picture has to be looked for there. Such a cell cannot tell where it is; `has_places` says it.

mean and var are those of channel c's group in this one picture: what stands beside it in the batch
changes nothing, and there is nothing to remember for later. Cells are made of whole squares of
pixels, so that every cell looks straight at the pixels it stands for.

Paper: He et al. 2016 (ResNet), equation 1 and section 3.3; Wu & He 2018 (group norm); Liu et al.
2018 (CoordConv: coordinates as channels, there before a convolution).
Cost: time O(b · cells · k · d²) in each of the k blocks of a stage of width d.
"""

from pathlib import Path
from typing import final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.vision.image_encoder import (
    GridSize,
    as_annotations,
    fill_cells,
    grid_of,
    standardise,
)

MIDDLE = 127.5
"""Half of the brightest: pictures are brought to -1 … 1."""

N_GROUPS = 8
"""Groups of channels that are normalised together."""

KERNELS = (3, 1)
"""Cells along a side that a block's convolutions may see."""

LARGEST = {"width": 1 << 10, "n_stages": 8, "n_blocks": 1 << 6}
"""Beyond these a setting is a mistake, or a file that means harm."""


@final
class ResidualNetwork(nn.Module):
    """A small one, to be trained with the rest from the start.

    Two stages make cells of 8 pixels (64 pixels: 8 x 8 cells), three cells of 16 (224 pixels:
    14 x 14), four cells of 32 (224 pixels: 7 x 7).

    Args:
        dims: not needed; annotations have a width of their own.
        width: channels of the stem; every stage doubles them. A multiple of 8.
        n_stages: how often the grid is halved after the stem.
        n_blocks: residual blocks of each stage.
        last_kernel: cells along a side that the blocks of the last stage see, 3 or 1.
        has_places: whether an annotation ends with column and row of its cell, from -1 to 1.
    """

    is_frozen = False

    def __init__(
        self,
        dims: Dims | None = None,
        *,
        width: int = 16,
        n_stages: int = 2,
        n_blocks: int = 1,
        last_kernel: int = 3,
        has_places: bool = False,
    ) -> None:
        super().__init__()
        settings = {"width": width, "n_stages": n_stages, "n_blocks": n_blocks}
        for name, given in settings.items():
            if not 1 <= given <= LARGEST[name]:
                raise SettingError(
                    f"residual: {name} must lie between 1 and {LARGEST[name]}, got {given}."
                )
        if width % N_GROUPS:
            near = N_GROUPS * -(-width // N_GROUPS)
            raise SettingError(
                f"residual: width must be a multiple of {N_GROUPS}, so that its channels form "
                f"{N_GROUPS} groups, got {width}. Take {near}."
            )
        if last_kernel not in KERNELS:
            raise SettingError(
                f"residual: last_kernel must be one of {KERNELS}: a cell with its neighbours, or "
                f"alone, got {last_kernel}."
            )
        self.pixels_per_cell, self.has_places = 2 ** (1 + n_stages), has_places
        self.d_annotation = width * 2**n_stages + 2 * has_places
        kernels = [KERNELS[0]] * (n_stages - 1) + [last_kernel]
        self.stem = _Halving(3, width, kernel=4)
        self.stages = nn.ModuleList(
            nn.Sequential(
                _Halving(width * 2**stage, width * 2 ** (stage + 1), kernel=2),
                *(
                    _Block(width * 2 ** (stage + 1), kernel=kernel, share=1 / n_blocks)
                    for _ in range(n_blocks)
                ),
            )
            for stage, kernel in enumerate(kernels)
        )

    def forward(self, pictures: UInt8[Tensor, "b 3 y x"]) -> Float[Tensor, "b l d"]:
        """The annotations of pictures, cells row by row."""
        self.grid_of(*pictures.shape[-2:])
        dtype = self.stem.S.weight.dtype
        x = standardise(pictures, mean=MIDDLE, spread=MIDDLE, dtype=dtype)
        x = self.stem(fill_cells(x, self.pixels_per_cell))
        for stage in self.stages:
            x = stage(x)
        return as_annotations(torch.cat([x, _places(x)], 1) if self.has_places else x)

    def grid_of(self, height: int, width: int | None = None) -> GridSize:
        """The cells of a picture of so many pixels; a square one unless the width is given."""
        return grid_of(height, width, pixels_per_cell=self.pixels_per_cell, encoder="residual")

    def load_published(self, cache: Path | None = None) -> None:
        """Nothing: it starts from random weights and learns with the rest."""


class _Halving(nn.Module):
    """ρ(GN(S * x)), at every other cell in both directions."""

    def __init__(self, d_in: int, d_out: int, *, kernel: int) -> None:
        super().__init__()
        self.S = _convolution(d_in, d_out, kernel=kernel, stride=2, padding=kernel // 2 - 1)
        self.norm = nn.GroupNorm(N_GROUPS, d_out)

    def forward(self, x: Float[Tensor, "b ch y x"]) -> Float[Tensor, "b d r c"]:
        return self.norm(self.S(x)).relu()


class _Block(nn.Module):
    """ρ(x + GN(B * ρ(GN(A * x))))."""

    def __init__(self, width: int, *, kernel: int, share: float) -> None:
        super().__init__()
        self.A = _convolution(width, width, kernel=kernel, stride=1, padding=kernel // 2)
        self.norm_A = nn.GroupNorm(N_GROUPS, width)
        self.B = _convolution(width, width, kernel=kernel, stride=1, padding=kernel // 2)
        self.norm_B = nn.GroupNorm(N_GROUPS, width)
        # blocks that start as a small step from what they were given are learnt sooner
        nn.init.constant_(self.norm_B.weight, share)

    def forward(self, x: Float[Tensor, "b d r c"]) -> Float[Tensor, "b d r c"]:
        inner = self.norm_A(self.A(x)).relu()
        return (x + self.norm_B(self.B(inner))).relu()


def _places(grid: Float[Tensor, "b d r c"]) -> Float[Tensor, "b 2 r c"]:
    """Column and row of each cell's centre, the picture reaching from -1 to 1."""
    b, _, *sides = grid.shape
    down, across = (
        (2 * torch.arange(side, device=grid.device, dtype=grid.dtype) + 1) / side - 1
        for side in sides
    )
    row, column = torch.meshgrid(down, across, indexing="ij")
    return torch.stack([column, row]).expand(b, -1, -1, -1)


def _convolution(d_in: int, d_out: int, *, kernel: int, stride: int, padding: int) -> nn.Conv2d:
    made = nn.Conv2d(d_in, d_out, kernel, stride=stride, padding=padding, bias=False)
    # half of the numbers pass a rectifier, and the norm that follows needs no bias before it
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    return made
