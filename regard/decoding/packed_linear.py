"""Packed linear: a linear layer whose weight lies in memory as the CPU's kernels read it fastest.

A product of a few rows with a large matrix takes as long as the matrix takes to be read. oneDNN
cuts it into blocks beforehand, once, for any number of rows. The function stays the same. Asking
oneDNN takes longer than asking for the plain product, so that the few rows of a single sentence
take the plain one where the matrix is soon read.
"""

from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear as product

_ops = torch.ops.mkldnn  # torch's own layers of this kind are private; only this file calls them
ROWS = 16
"""For how many rows the blocks are chosen; other numbers of rows read the same ones."""

FEW, SMALL = 8, 1 << 19
"""So many rows and so many numbers in the weight are multiplied as they are."""


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
        # beside the parameters, which a module takes longer to find
        self._plain = (linear.weight.detach(), None if self.bias is None else self.bias.detach())
        self._few = FEW * linear.in_features if linear.weight.numel() <= SMALL else 0

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b n"]:
        """The product; no gradient comes back through it."""
        weight, bias = self._plain
        if x.numel() <= self._few:
            return product(x, weight, bias)
        return _ops._linear_pointwise(x, self._packed, bias, "none", [], "")

    # nobody listens to this layer, and to ask who does takes as long as a small product
    __call__ = forward

    @cached_property
    def _packed(self) -> Tensor:
        """The weight in blocks, an opaque tensor; most layers never need it for few rows."""
        with torch.inference_mode(mode=False):
            return _ops._reorder_linear_weight(self._plain[0], ROWS)
