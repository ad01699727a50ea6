"""Tabled positions: sinusoidal vectors computed once, and looked up at every step of a search."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.places import Tree
from regard.positions import SinusoidalPositions

ROUND = 256
"""The table grows in multiples of this many positions."""


@final
class TabledPositions(nn.Module):
    """The same vectors, in the same precision, on the CPU."""

    def __init__(self, positions: SinusoidalPositions) -> None:
        super().__init__()
        self.positions = positions
        self._table = positions(torch.arange(0))

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """Look the vectors up; positions that cannot index a table are computed."""
        if not positions.is_cpu or positions.numel() == 0:
            return self.positions(positions, tree)
        first, last = (int(end) for end in positions.aminmax())
        if first < 0:
            return self.positions(positions, tree)
        if last >= len(self._table):
            self._table = self.positions(torch.arange((last // ROUND + 1) * ROUND))
        return nn.functional.embedding(positions, self._table)
