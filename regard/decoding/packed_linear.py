"""Packed linear: a linear layer whose weight lies in memory as the CPU's kernels read it fastest.

A product of a few rows with a large matrix takes as long as the matrix takes to be read. oneDNN
cuts it into blocks beforehand, once, for any number of rows. The few rows of a single sentence read
a weight fastest that is turned, inputs first, and asking for the plain product takes less time
than asking oneDNN. The function stays the same.
"""

from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

_ops = torch.ops.mkldnn  # torch's own layers of this kind are private; only this file calls them
ROWS = 16
"""For how many rows the blocks are chosen; other numbers of rows read the same ones."""

FEW, HUGE = 8, 1 << 22
"""So many rows take the turned weight, unless it has more numbers than these."""


def can_pack(linear: nn.Linear) -> bool:
    """Whether this torch can pack it: float32 on a CPU that oneDNN knows."""
    weight = linear.weight
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return is_plain and torch.backends.mkldnn.is_available()


@final
class PackedLinear(nn.Module):
    """Y = x Wᵀ + b, for inference; the given layer's weight is packed beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        # beside the parameters, which a module takes longer to find
        self._plain = (layer.weight.detach(), None if self.bias is None else self.bias.detach())
        self._few = FEW * layer.in_features if layer.weight.numel() <= HUGE else 0

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b n"]:
        """The product; no gradient comes back through it."""
        if x.numel() <= self._few:
            return linear(x, self._turned, self._plain[1])
        return _ops._linear_pointwise(x, self._packed, self._plain[1], "none", [], "")

    @cached_property
    def _turned(self) -> Float[Tensor, "n m"]:
        """The weight, stored with inputs first."""
        with torch.inference_mode(mode=False):
            return self._plain[0].mT.contiguous().mT

    @cached_property
    def _packed(self) -> Tensor:
        """The weight in blocks, an opaque tensor."""
        with torch.inference_mode(mode=False):
            return _ops._reorder_linear_weight(self._plain[0], ROWS)
