"""Rotary positions: queries and keys are turned by their positions, so scores see only distance.

    (x[2i], x[2i+1]) ↦ R(p w[i]) (x[2i], x[2i+1]),   w[i] = base^(-2i / d)

A model that was trained on short texts reads longer ones if its waves are slowed by a factor: all
of them, or (Llama 3) those of which fewer than `low` fit into a text of the trained length, and
less of those up to `high`.

    w'[i] = w[i] (s + (1 - s) / factor),   s = clamp((trained_len w[i] / 2π - low) / (high - low))

Paper: Su et al. 2021 (RoFormer), equations 14 to 16; pairs of neighbouring channels. Chen et al.
2023 (position interpolation).
Cost: time O(n · d) for queries and keys of each head, no parameters, no length limit.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import DimsError, SettingError
from regard.positions.sinusoidal import BASE, frequencies


@final
class RotaryPositions(nn.Module):
    """Turns vectors of one head; nothing is added to the inputs.

    Waves are slowed by `factor`; all of them, unless `trained_len` is given.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        base: float = 10000.0,
        factor: float = 1.0,
        trained_len: int = 0,
        low: float = 1.0,
        high: float = 4.0,
    ) -> None:
        super().__init__()
        if dims.d_head % 2:
            raise DimsError(f"rotary: heads must have an even width, got {dims.d_head}.")
        if base <= 1 or factor < 1 or trained_len < 0 or not 0 < low < high:
            raise SettingError(
                "rotary: expected base > 1, factor >= 1, trained_len >= 0 and 0 < low < high, got "
                f"base = {base}, factor = {factor}, trained_len = {trained_len}, low = {low} and "
                f"high = {high}."
            )
        self.width, self.base, self.factor = dims.d_head, base, factor
        self.trained_len, self.low, self.high = trained_len, low, high

    @property
    def is_plain(self) -> bool:
        """Whether its waves are those of the paper."""
        return self.base == BASE and self.factor == 1

    def waves(self, device: torch.device | None = None) -> Float[Tensor, " half"]:
        """The angle by which each pair of channels turns from one position to the next."""
        found = frequencies(self.width, device, base=self.base)
        fits = self.trained_len * found / (2 * torch.pi)
        stays = ((fits - self.low) / (self.high - self.low)).clamp(0, 1)
        return found * (stays + (1 - stays) / self.factor)

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
        angles = positions.unsqueeze(-1) * self.waves(positions.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
