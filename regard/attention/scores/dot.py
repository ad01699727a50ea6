"""Dot score: a query suits a key that points the same way.

    e[i,j] = q[i] · k[j]

Paper: Luong, Pham & Manning 2015, equation 8 (dot).
Cost: time O(q · k · d), no parameters; query and key must have the same width.
"""

from typing import final

from torch import nn

from regard.attention.links import Dot, Score
from regard.attention.shapes import Keys, Queries, Scores
from regard.dims import Dims
from regard.places import Places


@final
class DotScore(nn.Module, Score):
    """The dot product of query and key."""

    is_movable = needs_one_width = bears_rotation = True

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key."""
        return query @ key.mT

    def as_dot(self, query: Queries, key: Keys) -> Dot:
        """Query and key are the two sides already."""
        return Dot(query, key, scale=1.0)
