"""A score of your own: a dozen lines, and it has heads, masks, maps and an explanation.

Expected output, among other lines:

    tensor([[1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
            [0.3430, 0.6570, 0.0000, 0.0000, 0.0000, 0.0000],
"""

import torch
from torch import Tensor, nn

from regard import Dims, multi_head
from regard.parts import CausalPattern, Score


class DistanceScore(nn.Module, Score):
    """e[i,j] = -g |q[i] - k[j]|²."""

    is_movable = needs_one_width = True

    def __init__(self, dims: Dims, *, start: float = 0.1) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.full((dims.n_heads, 1, 1), start))

    def forward(self, query: Tensor, key: Tensor, places: object = None) -> Tensor:
        """Minus the squared distance of each query to each key, times g."""
        return -self.g * (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1)


torch.manual_seed(0)
dims = Dims(d_model=32, n_heads=4)
attention = multi_head(dims, score=DistanceScore(dims.head()))
x = torch.randn(1, 6, 32)
attended = attention(x, x, x, CausalPattern())
print(attended.map.dense()[0, 0])
attended.context.sum().backward()
