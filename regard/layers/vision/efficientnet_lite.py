"""EfficientNet-Lite0: a network trained on ImageNet, as a captioner's picture encoder.

    CN(x)   = g (W * x - mean) / sqrt(var + 0.001) + h        a convolution and its norm
    MB(x)   = CN(ρ(CN(ρ(CN(x)))))                             1 x 1; k x k in every channel; 1 x 1
    block   = x + MB(x) where grid and width stay, MB(x) elsewhere
    picture → ρ(CN) → 16 blocks → ρ(CN) → grid                ρ(x) = min(max(x, 0), 6)

mean and var are those of the published training and are never updated, even if other weights are
trained: training and evaluation are one function, independent of the batch. Such a norm is a factor
and a bias, and is multiplied into W. Paddings are those of the published training: if one side must
be longer, it is the right and the lower one.

Paper: Tan & Le 2019 (EfficientNet), table 1; Sandler et al. 2018 (MobileNetV2), section 3; Google's
"Lite" leaves out the squeeze-and-excitation and takes ReLU6.
Cost: 0.4 G multiplications for a picture of 224 x 224; 3.4 M weights.
"""

from collections.abc import Mapping
from typing import NamedTuple, final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from regard.choices import find
from regard.dims import Dims
from regard.layers.vision.image_encoder import ImageEncoder, as_annotations, freeze, standardise
from regard.layers.vision.published_weights import lite0_file, load_lite0, read_pickled_tensors

MEAN, SPREAD = 127.0, 128.0
"""The mean and spread with which published training scaled pixels to about -1 … 1."""

EPS = 1e-3
"""The eps of the published norms, added to the variance."""


class Stage(NamedTuple):
    """Blocks of one width."""

    n_blocks: int
    kernel: int
    stride: int
    """The stride of the first block."""
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


class AnnotationGrid(NamedTuple):
    """The stage that gives the annotations; after the last one they are widened once more."""

    pixels_per_cell: int
    n_stages: int
    """Stages before them."""


GRIDS: Mapping[str, AnnotationGrid] = {
    "coarse": AnnotationGrid(pixels_per_cell=32, n_stages=7),
    "fine": AnnotationGrid(pixels_per_cell=16, n_stages=5),
    "dilated": AnnotationGrid(pixels_per_cell=16, n_stages=7),
}
"""The names that `grid` may have."""


@final
class EfficientNetLite0(ImageEncoder):
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

    name = "efficientnet_lite0"

    def __init__(
        self, dims: Dims | None = None, *, grid: str = "coarse", is_frozen: bool = True
    ) -> None:
        super().__init__()
        taken = find(grid, GRIDS, key="efficientnet_lite0.grid")
        self.is_frozen = is_frozen
        width, has_head = STAGES[taken.n_stages - 1].width, taken.n_stages == len(STAGES)
        self.pixels_per_cell = taken.pixels_per_cell
        self.d_annotation = HEAD_WIDTH if has_head else width
        self.stem = _NormedConvolution(3, STEM_WIDTH, kernel=3, stride=2)
        self.blocks = nn.ModuleList(_blocks(taken))
        self.head = _NormedConvolution(width, HEAD_WIDTH) if has_head else None
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

    def load_published(self) -> None:
        """Take over the ImageNet weights of the installed package."""
        load_lite0(self, read_pickled_tensors(lite0_file()))


class _Block(nn.Module):
    """x + MB(x), or MB(x) where grid or width change."""

    def __init__(self, d_in: int, stage: Stage, *, stride: int, dilation: int) -> None:
        super().__init__()
        inside = d_in * stage.expansion
        self.is_residual = stride == 1 and d_in == stage.width
        self.expand = _NormedConvolution(d_in, inside) if stage.expansion > 1 else None
        self.depthwise = _NormedConvolution(
            inside, inside, kernel=stage.kernel, stride=stride, dilation=dilation, groups=inside
        )
        self.project = _NormedConvolution(inside, stage.width)

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


def _blocks(taken: AnnotationGrid) -> list[_Block]:
    """The blocks of the first stages; late ones are dilated, not strided, to keep the grid."""
    made, width, reached, dilation = [], STEM_WIDTH, 2, 1
    for stage in STAGES[: taken.n_stages]:
        for number in range(stage.n_blocks):
            stride = 1 if number else stage.stride
            # dilation begins after the block that would have halved the grid
            dilates = stride if reached * stride > taken.pixels_per_cell else 1
            made.append(_Block(width, stage, stride=stride // dilates, dilation=dilation))
            reached, dilation = reached * stride // dilates, dilation * dilates
            width = stage.width
    return made


def _relu6(x: Tensor) -> Tensor:
    return x.clamp(0.0, 6.0)
