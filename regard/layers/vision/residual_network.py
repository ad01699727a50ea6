"""Residual network: a small convolutional picture encoder to be trained with the captioner.

    x = ρ(GN(S * picture))                stem: 4 x 4 pixels, at every other one
    x = ρ(GN(S * x))                      each stage: 2 x 2 cells become one, twice as wide
    x = ρ(x + GN(B * ρ(GN(A * x))))       and its blocks: A and B see 3 x 3 cells
    GN(x)[c] = g[c] (x[c] - mean) / sqrt(var + eps) + h[c],   ρ(x) = max(x, 0)
    a = [x; column; row]                  with `has_places`, each from -1 to 1

With 3 x 3 cells in every block, a cell of the last grid sees far beyond its own pixels: in the
default network 58 pixels of 64. With a `last_kernel` of 1 the blocks of the last stage see their
own cell alone, and it sees 26: its own pixels and 9 around them; attention must find other parts of
the picture in other cells. Such a cell holds no position of its own; `has_places` adds it.

mean and var are those of channel c's group in this one picture: other pictures of the
batch change nothing, and there are no running statistics. Cells are made of whole squares of
pixels, so that every cell is centred on its own pixels.

Paper: He et al. 2016 (ResNet), equation 1 and section 3.3; Wu & He 2018 (group norm); Liu et al.
2018 (CoordConv: coordinates as channels, there before a convolution).
Cost: time O(b · cells · k · d²) in each of the k blocks of a stage of width d.
"""

from typing import final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.vision.image_encoder import ImageEncoder, as_annotations, standardise

MIDDLE = 127.5
"""Mean and spread of pixels: pictures are scaled to -1 … 1."""

N_GROUPS = 8
"""Groups of channels that are normalised together."""

KERNELS = (3, 1)
"""The kernel sizes that a block's convolutions may have."""

LARGEST = {"width": 1 << 10, "n_stages": 8, "n_blocks": 1 << 6}
"""The largest settings; more is a mistake or a malicious file."""


@final
class ResidualNetwork(ImageEncoder):
    """A small residual network, to be trained with the captioner from the start.

    Two stages make cells of 8 pixels (64 pixels: 8 x 8 cells), three cells of 16 (224 pixels:
    14 x 14), four cells of 32 (224 pixels: 7 x 7).

    Args:
        dims: not needed; annotations have a width of their own.
        width: channels of the stem, a multiple of 8; every stage doubles them.
        n_stages: how often the grid is halved after the stem.
        n_blocks: residual blocks of each stage.
        last_kernel: cells along a side that the blocks of the last stage see, 3 or 1.
        has_places: whether an annotation ends with column and row of its cell, from -1 to 1.
    """

    name = "residual"

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
        # zeros below and to the right, until whole cells cover the picture
        below, right = (-side % self.pixels_per_cell for side in x.shape[-2:])
        x = self.stem(pad(x, (0, right, 0, below)))
        for stage in self.stages:
            x = stage(x)
        return as_annotations(torch.cat([x, _places(x)], 1) if self.has_places else x)


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
        # blocks whose output is close to their input at first are learned sooner
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
