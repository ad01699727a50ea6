"""Linear bias: far keys are penalised in proportion to their distance; nothing is learned.

    e[i,j] -= m[h] |j - i|,   m[h] = 2^(-8 h / n_heads), h = 1 … n_heads

Paper: Press, Smith & Lewis 2022 (ALiBi), section 3.
Cost: time O(q · k), no parameters; reaches beyond the lengths it was trained on.
"""

from typing import final

import torch
from torch import Tensor, nn

from regard.attention.banded import Banded
from regard.attention.links import Relation
from regard.attention.shapes import Bias, Queries
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.places import Places


@final
class LinearBiasRelation(nn.Module, Relation):
    """One slope for each head."""

    is_movable, reads_query, reach, has_slope = True, False, 1, True
    m: Tensor

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.widths = Widths(dims.n_heads)
        self.register_buffer("m", torch.tensor(slopes(dims.n_heads)), persistent=False)

    def as_bias(self, places: Places) -> Bias:
        """Minus slope times distance."""
        return -self.m.view(-1, 1, 1) * places.offsets.abs()

    def as_banded(self, query: Queries) -> Banded:
        """A straight line on either side."""
        near = torch.arange(-1, 2, device=self.m.device).abs()
        return Banded(-self.m.view(1, -1, 1, 1) * near, None, -self.m)


def slopes(n_heads: int) -> list[float]:
    """A geometric series; heads beyond a power of two take every second slope of the next."""
    whole = 1 << (n_heads.bit_length() - 1)
    first = [2 ** (-8 * h / whole) for h in range(1, whole + 1)]
    between = [2 ** (-8 * h / (2 * whole)) for h in range(1, 2 * whole + 1, 2)]
    return first + between[: n_heads - whole]
