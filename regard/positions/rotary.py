"""Rotary positions: queries and keys are turned by their positions, so scores see only distance.

    (x[2i], x[2i+1]) ↦ R(p w[i]) (x[2i], x[2i+1]),   w[i] = 10000^(-2i / d)

Paper: Su et al. 2021 (RoFormer), equations 14 to 16; pairs of neighbouring channels.
Cost: time O(n · d) for queries and keys of each head, no parameters, no length limit.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import DimsError
from regard.positions.sinusoidal import frequencies


@final
class RotaryPositions(nn.Module):
    """Turns vectors of one head; nothing is added to the inputs."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        if dims.d_head % 2:
            raise DimsError(f"rotary: heads must have an even width, got {dims.d_head}.")
        self.width = dims.d_head

    def cannot_meet(self, other: object) -> str | None:
        """Refuse a score that rotated vectors would break; other links are always allowed."""
        if getattr(other, "bears_rotation", True):
            return None
        return (
            "only a dot product of rotated vectors depends on their distance alone; take scaled_dot"
        )

    def forward(
        self, x: Float[Tensor, "*b n d"], positions: Int[Tensor, " n"]
    ) -> Float[Tensor, "*b n d"]:
        """Turn each pair of channels by the position times its frequency."""
        angles = positions.unsqueeze(-1) * frequencies(self.width, positions.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
