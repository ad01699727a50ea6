"""Sinusoidal positions: waves of many lengths, so that a shift is a rotation.

    PE[p, 2i] = sin(p w[i]),   PE[p, 2i+1] = cos(p w[i]),   w[i] = 10000^(-2i / m)

Paper: Vaswani et al. 2017, section 3.5.
Cost: time O(n · m), no parameters, no length limit.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import DimsError
from regard.places import Tree

BASE = 10000.0


@final
class SinusoidalPositions(nn.Module):
    """A fixed vector for each position."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        if dims.d_model % 2:
            raise DimsError(
                f"sinusoidal: d_model must be even (sine and cosine), got {dims.d_model}."
            )
        self.width = dims.d_model

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """Sine and cosine of every wave, side by side."""
        angles = positions.unsqueeze(-1) * frequencies(self.width, positions.device)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    def shift(self, k: int) -> Float[Tensor, "m m"]:
        """The matrix T(k) for which PE[p + k] = T(k) PE[p], whatever p is."""
        angles = k * frequencies(self.width)
        pairs = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], -1)
        return torch.block_diag(*pairs.unflatten(-1, (2, 2)))


def frequencies(
    width: int, device: torch.device | None = None, *, base: float = BASE
) -> Float[Tensor, " half"]:
    """w[i] for each pair of channels, always in double: far positions need every digit."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
