"""Soft cap: scores squeezed into (-cap, cap), as Gemma 2 does.

    e[i,j] = cap · tanh(q[i] · k[j] / (sqrt(d) · cap))

Paper: Gemma Team 2024 (Gemma 2), section 2; the cap itself from Bello et al. 2016.
Cost: time O(q · k · d), in blocks of queries; no parameters.
"""

from typing import final

from torch import nn

from regard.attention.links import Score
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.attention.shapes import Keys, Queries, Scores
from regard.errors import SettingError
from regard.places import Places


@final
class SoftCappedScore(nn.Module, Score):
    """The scaled dot product, which never passes the cap on either side."""

    is_movable = needs_one_width = bears_rotation = is_scaled_dot = True
    held_per_pair = 1
    own_name = "soft_capped"

    def __init__(self, cap: float) -> None:
        super().__init__()
        if not cap > 0:
            raise SettingError(f"soft cap: the cap must be above 0, got {cap}.")
        self.cap = cap
        self.scaled_dot = ScaledDotScore()

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key, scaled and capped."""
        return (self.scaled_dot(query, key, places) / self.cap).tanh() * self.cap
