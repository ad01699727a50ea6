"""Scaled dot score: a dot product kept at variance one, so that the softmax can still learn.

    e[i,j] = q[i] · k[j] / sqrt(d)

Paper: Vaswani et al. 2017, equation 1.
Cost: time O(q · k · d), no parameters; query and key must have the same width d.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Dot
from regard.dims import Dims
from regard.places import Places


@final
class ScaledDotScore(nn.Module):
    """The dot product divided by the root of the head's width."""

    held_per_pair = 0

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k d"],
        places: Places | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """Every query with every key, scaled."""
        return query @ key.mT * query.shape[-1] ** -0.5

    def as_dot(self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k d"]) -> Dot:
        """It is one."""
        return Dot(query, key, scale=query.shape[-1] ** -0.5)

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
        scores = query[..., :-1] @ prepared.mT + query[..., -1:] * late
        return scores * query.shape[-1] ** -0.5
