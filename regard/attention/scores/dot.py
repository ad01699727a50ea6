"""Dot score: a query suits a key that points the same way.

    e[i,j] = q[i] · k[j]

Paper: Luong, Pham & Manning 2015, equation 8 (dot).
Cost: time O(q · k · d), no parameters; query and key must have the same width.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Dot
from regard.dims import Dims
from regard.places import Places


@final
class DotScore(nn.Module):
    """The dot product of query and key."""

    held_per_pair = 0

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
        """It is one."""
        return Dot(query, key, scale=1.0)

    def prepared(self, key: Float[Tensor, "*b k d"]) -> Float[Tensor, "*b k d"]:
        """The keys: nothing is done to them."""
        return key

    def compare(
        self,
        query: Float[Tensor, "*b q d"],
        prepared: Float[Tensor, "*b k p"],
        places: Places | None = None,
        late: Float[Tensor, "*b q k"] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The same, the late number of a key with the last of the query."""
        if late is None:
            return self(query, prepared, places)
        return query[..., :-1] @ prepared.mT + query[..., -1:] * late
