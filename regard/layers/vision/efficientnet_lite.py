"""EfficientNet-Lite0: a network that has seen ImageNet, as the eyes of a captioner.

    CN(x)   = g (W * x - mean) / sqrt(var + 0.001) + h        a convolution and its norm
    MB(x)   = CN(ρ(CN(ρ(CN(x)))))                             1 x 1; k x k in every channel; 1 x 1
    block   = x + MB(x) where grid and width stay, MB(x) elsewhere
    picture → ρ(CN) → 16 blocks → ρ(CN) → grid                ρ(x) = min(max(x, 0), 6)

mean and var are those of the published training and stay as they are, whether the rest learns or
not: training and evaluation are one function, and a batch changes nothing. A norm that does not
change is a factor and a bias, so it is multiplied into W. Paddings are those of the published
training: where one side must be longer, it is the right and the lower one.

Paper: Tan & Le 2019 (EfficientNet), table 1; Sandler et al. 2018 (MobileNetV2), section 3; Google's
"Lite" leaves out the squeeze-and-excitation and takes ReLU6.
Cost: 0.4 G multiplications for a picture of 224 x 224; 3.4 M weights.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from regard.choices import find
from regard.dims import Dims
from regard.layers.vision.image_encoder import (
    GridSize,
    as_annotations,
    freeze,
    grid_of,
    standardise,
)
from regard.layers.vision.published_weights import load_lite0, published_lite0

MEAN, SPREAD = 127.0, 128.0
"""How the published training brought pictures to about -1 … 1; every colour alike."""

EPS = 1e-3
"""What the published norms add to the variance."""


class Stage(NamedTuple):
    """Blocks of one width."""

    n_blocks: int
    kernel: int
    stride: int
    """Of the first block."""
    expansion: int
    """How many times wider a block is inside."""
    width: int


STEM_WIDTH, HEAD_WIDTH = 32, 1280

STAGES = (
    Stage(n_blocks=1, kernel=3, stride=1, expansion=1, width=16),
    Stage(n_blocks=2, kernel=3, stride=2, expansion=6, width=24),
    Stage(n_blocks=2, kernel=5, stride=2, expansion=6, width=40),
    Stage(n_blocks=3, kernel=3, stride=2, expansion=6, width=80),
    Stage(n_blocks=3, kernel=5, stride=1, expansion=6, width=112),
    Stage(n_blocks=4, kernel=5, stride=2, expansion=6, width=192),
    Stage(n_blocks=1, kernel=3, stride=1, expansion=6, width=320),
)


class Grid(NamedTuple):
    """Where the annotations are taken."""

    pixels_per_cell: int
    n_stages: int
    """Stages before them."""
    has_head: bool
    """Whether the last 1 x 1 convolution widens them."""
    d_annotation: int


GRIDS: Mapping[str, Grid] = {
    "coarse": Grid(pixels_per_cell=32, n_stages=7, has_head=True, d_annotation=HEAD_WIDTH),
    "fine": Grid(pixels_per_cell=16, n_stages=5, has_head=False, d_annotation=112),
    "dilated": Grid(pixels_per_cell=16, n_stages=7, has_head=True, d_annotation=HEAD_WIDTH),
}
"""What `grid` may name."""


@final
class EfficientNetLite0(nn.Module):
    """The published network without its classifier, frozen or to be trained further.

    At 224 x 224 pixels, the size it was trained at, `coarse` gives 7 x 7 cells of 1280 numbers (its
    last features); `fine` 14 x 14 cells of 112, two stages earlier; `dilated` 14 x 14 cells of
    1280: the late stages step one cell at a time and look at every other neighbour, so that every
    other cell is a cell of `coarse` and those between are new.

    Args:
        dims: not needed; annotations have a width of their own.
        grid: "coarse", "fine" or "dilated".
        is_frozen: whether the weights stay as published; then they are buffers, not parameters.
    """

    def __init__(
        self, dims: Dims | None = None, *, grid: str = "coarse", is_frozen: bool = True
    ) -> None:
        super().__init__()
        taken = find(grid, GRIDS, key="efficientnet_lite0.grid")
        self.is_frozen = is_frozen
        self.pixels_per_cell, self.d_annotation = taken.pixels_per_cell, taken.d_annotation
        self.stem = _NormedConvolution(3, STEM_WIDTH, kernel=3, stride=2)
        self.blocks = nn.ModuleList(_blocks(taken))
        width = STAGES[taken.n_stages - 1].width
        self.head = _NormedConvolution(width, HEAD_WIDTH) if taken.has_head else None
        if is_frozen:
            freeze(self)

    def forward(self, pictures: UInt8[Tensor, "b 3 y x"]) -> Float[Tensor, "b l d"]:
        """The annotations of pictures, cells row by row."""
        self.grid_of(*pictures.shape[-2:])
        x = standardise(pictures, mean=MEAN, spread=SPREAD, dtype=self.stem.W.dtype)
        x = _relu6(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return as_annotations(x if self.head is None else _relu6(self.head(x)))

    def grid_of(self, height: int, width: int | None = None) -> GridSize:
        """The cells of a picture of so many pixels; a square one unless the width is given."""
        return grid_of(
            height, width, pixels_per_cell=self.pixels_per_cell, encoder="efficientnet_lite0"
        )

    def load_published(self, cache: Path | None = None) -> None:
        """Take over the ImageNet weights of the installed package, through a cache if one is named.

        Args:
            cache: a safetensors file that is read if it exists, and written otherwise.
        """
        load_lite0(self, published_lite0(cache=cache))


class _Block(nn.Module):
    """x + MB(x), or MB(x) where grid or width change."""

    def __init__(
        self, d_in: int, d_out: int, *, kernel: int, stride: int, expansion: int, dilation: int
    ) -> None:
        super().__init__()
        inside = d_in * expansion
        self.is_residual = stride == 1 and d_in == d_out
        self.expand = _NormedConvolution(d_in, inside) if expansion > 1 else None
        self.depthwise = _NormedConvolution(
            inside, inside, kernel=kernel, stride=stride, dilation=dilation, groups=inside
        )
        self.project = _NormedConvolution(inside, d_out)

    def forward(self, x: Float[Tensor, "b d r c"]) -> Float[Tensor, "b d2 r2 c2"]:
        inner = x if self.expand is None else _relu6(self.expand(x))
        out = self.project(_relu6(self.depthwise(inner)))
        return x + out if self.is_residual else out


class _NormedConvolution(nn.Module):
    """CN(x): a convolution and a norm with given statistics, in one product."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.dilation, self.groups = kernel, stride, dilation, groups
        self.W = nn.Parameter(torch.empty(d_out, d_in // groups, kernel, kernel))
        self.gain = nn.Parameter(torch.ones(d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(d_out))
        self.register_buffer("variance", torch.ones(d_out))
        nn.init.kaiming_normal_(self.W, nonlinearity="relu")

    def forward(self, x: Float[Tensor, "b ch y x"]) -> Float[Tensor, "b d r c"]:
        factor = self.gain * (self.variance + EPS).rsqrt()
        (above, below), (before, after) = map(self._padding, x.shape[-2:])
        if below or after:
            x = pad(x, (0, after, 0, below))
        return conv2d(
            x,
            self.W * factor[:, None, None, None],
            self.bias - self.mean * factor,
            stride=self.stride,
            padding=(above, before),
            dilation=self.dilation,
            groups=self.groups,
        )

    def _padding(self, size: int) -> tuple[int, int]:
        """Zeros on both sides, and one more at the end, so that ceil(size / stride) cells stay."""
        n_steps = -(-size // self.stride) - 1
        reach = (self.kernel - 1) * self.dilation + 1
        return divmod(max(0, n_steps * self.stride + reach - size), 2)


def _blocks(taken: Grid) -> list[_Block]:
    """The blocks of the first stages; those that would leave the grid are dilated instead."""
    made, width, reached, dilation = [], STEM_WIDTH, 2, 1
    for stage in STAGES[: taken.n_stages]:
        for number in range(stage.n_blocks):
            stride = 1 if number else stage.stride
            halves = stride > 1 and reached * stride <= taken.pixels_per_cell
            made.append(
                _Block(
                    width,
                    stage.width,
                    kernel=stage.kernel,
                    stride=stride if halves else 1,
                    expansion=stage.expansion,
                    dilation=dilation,
                )
            )
            # a block that should have halved the grid does not see beyond its own neighbours yet
            reached, dilation = (
                (reached * stride, dilation) if halves else (reached, dilation * stride)
            )
            width = stage.width
    return made


def _relu6(x: Tensor) -> Tensor:
    return x.clamp(0.0, 6.0)
