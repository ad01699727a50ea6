"""Packed linear: a linear layer whose weight is stored in the layout that CPU kernels read fastest.

A product of a few rows with a large matrix takes as long as reading the matrix. oneDNN packs it
into blocks once, for any number of rows; MKL packs it for a known number of rows, and is faster for
few. For one or two rows the unpacked weight is the fastest. The function stays the same.
"""

from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

_onednn, _mkl = torch.ops.mkldnn, torch.ops.mkl
# torch's own layers of this kind are private; only this file calls them

ROWS = 16
"""The number of rows for which oneDNN chooses its blocks; other numbers use the same blocks."""

BARE = 2
"""Numbers of rows for which the weight is not packed."""

FEW, HUGE = 8, 1 << 22
"""Numbers of rows for MKL's blocks, and the largest weight for them."""


def can_pack(linear: nn.Linear) -> bool:
    """Whether this torch can pack the layer: float32 on a CPU that oneDNN supports."""
    weight = linear.weight
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return is_plain and torch.backends.mkldnn.is_available()


@final
class PackedLinear(nn.Module):
    """Y = x Wᵀ + b, for inference; the given layer's weight is packed beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        # a plain attribute, since a module finds parameters more slowly
        self._plain = (layer.weight.detach(), None if self.bias is None else self.bias.detach())
        self._bare = BARE * layer.in_features
        is_handy = layer.weight.numel() <= HUGE and torch.backends.mkl.is_available()
        self._few = FEW * layer.in_features if is_handy else 0
        self._for_rows: tuple[int, Tensor] | None = None

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b n"]:
        """The product, without a gradient."""
        weight, bias = self._plain
        size = x.numel()
        if size <= self._bare:
            return linear(x, weight, bias)
        if size <= self._few:
            rows = size // x.shape[-1]
            return _mkl._mkl_linear(x, self._packed_for(rows), weight, bias, rows)
        return _onednn._linear_pointwise(x, self._packed, bias, "none", [], "")

    def _packed_for(self, rows: int) -> Tensor:
        """The weight in MKL's blocks for this number of rows; cached until another number comes."""
        if self._for_rows is None or self._for_rows[0] != rows:
            with torch.inference_mode(mode=False):
                packed = _mkl._mkl_reorder_linear_weight(self._plain[0], rows)
            self._for_rows = rows, packed
        return self._for_rows[1]

    @cached_property
    def _packed(self) -> Tensor:
        """The weight in oneDNN's blocks, an opaque tensor."""
        with torch.inference_mode(mode=False):
            return _onednn._reorder_linear_weight(self._plain[0], ROWS)
