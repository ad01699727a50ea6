"""Layer norm: every position brought to mean zero and variance one, then stretched and moved.

    LN(x) = g ⊙ (x - mean) / sqrt(var + eps) + c,   var divides by m
    RMS(x) = g ⊙ x / sqrt(mean(x²) + eps) + c       where it is not centred

Paper: Ba, Kiros & Hinton 2016, equation 4; Zhang & Sennrich 2019 (RMSNorm), equation 4.
Cost: time O(n · m), up to 2 m parameters.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.dims import Dims


@final
class Norm(nn.Module):
    """Layer norm whose gain and bias can each be left out, and the centring too (RMS norm)."""

    def __init__(
        self,
        dims: Dims,
        *,
        has_gain: bool = True,
        has_bias: bool = True,
        is_centred: bool = True,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dims.d_model)) if has_gain else None
        self.bias = nn.Parameter(torch.zeros(dims.d_model)) if has_bias else None
        self.is_centred, self.eps = is_centred, eps

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        """Normalise over the last axis."""
        if self.is_centred:
            return torch.layer_norm(x, x.shape[-1:], self.gain, self.bias, self.eps)
        scaled = torch.rms_norm(x, x.shape[-1:], self.gain, self.eps)
        return scaled if self.bias is None else scaled + self.bias
