"""Dropout: a faster `nn.Dropout` for the vectors of layers and models.

    y = x ⊙ m / (1 - p),   m ~ Bernoulli(1 - p)

On a CPU, torch draws one random number for each element, which costs more than a layer norm; here
one draw of 64 bits decides four elements, each with a probability rounded to 1 / 65536.

Attention weights are dropped in attend.py and engine/windowed.py, by torch's own function; paths
that never hold a weight (fused, joined, sparse, thresholded) are not taken where it is on.

Paper: Srivastava et al. 2014, section 4.
"""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import dropout

from regard.errors import SettingError

STEPS = 1 << 16


@final
class Dropout(nn.Module):
    """Zeros elements with probability `p` in training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise SettingError(f"dropout: p must lie in [0, 1), got {p}.")
        self.p = p
        self.kept = round(STEPS * (1 - p))
        """How many of the 65536 values of a draw keep the element."""

    def forward(self, x: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        """The input with dropout in training, unchanged otherwise."""
        if not self.training or self.kept == STEPS:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return dropout(x, self.p)
        return _Drop.apply(x, self.kept, 1 / (1 - self.p))


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: int, scale: float) -> Tensor:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        mask = torch.lt(bits, kept - STEPS // 2, out=torch.empty_like(x))
        mask.mul_(scale)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return grad * mask, None, None
