"""Packed linear: a linear layer whose weight lies in memory as the CPU's kernels read it fastest.

A product of a few rows with a large matrix takes as long as the matrix takes to be read. oneDNN
cuts it into blocks beforehand, once, for any number of rows. The function stays the same.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

_ops = torch.ops.mkldnn  # torch's own layers of this kind are private; only this file calls them
ROWS = 16
"""For how many rows the blocks are chosen; other numbers of rows read the same ones."""


def can_pack(linear: nn.Linear) -> bool:
    """Whether this torch can pack it: float32 on a CPU that oneDNN knows."""
    weight = linear.weight
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return is_plain and torch.backends.mkldnn.is_available()


@final
class PackedLinear(nn.Module):
    """Y = x Wᵀ + b, for inference; the given layer's weight is packed beside it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        # an opaque tensor, which is no parameter
        self._packed = _ops._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b n"]:
        """The product; no gradient comes back through it."""
        return _ops._linear_pointwise(x, self._packed, self.bias, "none", [], "")
