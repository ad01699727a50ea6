"""Scaled dot score: a dot product kept at variance one, so that the softmax can still learn.

    e[i,j] = q[i] · k[j] / sqrt(d)

Paper: Vaswani et al. 2017, equation 1.
Cost: time O(q · k · d), no parameters; query and key must have the same width d.
"""

from typing import final

from torch import nn

from regard.attention.links import Dot, Score
from regard.attention.shapes import Keys, Queries, Scores
from regard.dims import Dims
from regard.places import Places


@final
class ScaledDotScore(nn.Module, Score):
    """The dot product divided by the root of the head's width."""

    is_movable = needs_one_width = bears_rotation = is_scaled_dot = True

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key, scaled."""
        return query @ key.mT * query.shape[-1] ** -0.5

    def as_dot(self, query: Queries, key: Keys) -> Dot:
        """Query and key are the two sides already."""
        return Dot(query, key, scale=query.shape[-1] ** -0.5)
