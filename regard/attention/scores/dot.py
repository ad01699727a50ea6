"""Dot score: a query suits a key that points the same way.

    e[i,j] = q[i] · k[j]

Paper: Luong, Pham & Manning 2015, equation 8 (dot).
Cost: time O(q · k · d), no parameters; query and key must have the same width.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Dot, Score
from regard.dims import Dims
from regard.places import Places


@final
class DotScore(nn.Module, Score):
    """The dot product of query and key."""

    is_movable = needs_one_width = bears_rotation = True

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k d"],
        places: Places | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """Every query with every key."""
        return query @ key.mT

    def as_dot(self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k d"]) -> Dot:
        """Query and key are the two sides already."""
        return Dot(query, key, scale=1.0)
