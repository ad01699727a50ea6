"""Shaw's relation: a learned vector for each clipped distance, added to the key and to the value.

    e[i,j] = q[i] · (k[j] + wK[c]) / sqrt(d),   c = clip(j - i, -clip, clip)
    z[i] = sum_j a[i,j] (v[j] + wV[c])

Paper: Shaw, Uszkoreit & Vaswani 2018, equations 3 and 4.
Cost: time and memory O(q · (2 clip + 1)) beside the scores; no q × k × d tensor is ever made.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.links import Relation, Score, wide
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


@final
class ShawRelation(nn.Module, Relation):
    """Tables for keys and for values, one for each head or shared by all."""

    is_movable = True

    def __init__(self, dims: Dims, *, clip: int = 16, is_shared: bool = False) -> None:
        super().__init__()
        if clip < 0:
            raise SettingError(f"shaw: clip must be at least 0, got {clip}.")
        self.clip = clip
        n_tables = 1 if is_shared else dims.n_heads
        self.wK = nn.Parameter(torch.empty(n_tables, 2 * clip + 1, dims.query))
        self.wV = nn.Parameter(torch.empty(n_tables, 2 * clip + 1, dims.value))
        for table in (*self.wK, *self.wV):
            nn.init.xavier_uniform_(table)

    def to_scores(
        self, query: Float[Tensor, "b h q d"], places: Places
    ) -> Float[Tensor, "b h q k"]:
        """q[i] · wK[c] for every pair: a q × (2 clip + 1) product, then a gather."""
        by_distance = query @ self.wK.mT * query.shape[-1] ** -0.5
        return pick(by_distance, self._index(places))

    def to_context(
        self, weights: Float[Tensor, "b h q k"], places: Places
    ) -> Float[Tensor, "b h q dv"]:
        """The mass of each distance times its vector: a scatter, then a product."""
        return mass(weights, self._index(places), 2 * self.clip + 1) @ self.wV

    def cannot_meet(self, other: object) -> str | None:
        """Refuse every score but the scaled dot product, whose keys its vectors join."""
        return needs_scaled_dot(other)

    def _index(self, places: Places) -> Int[Tensor, "*b q k"]:
        return places.offsets.clamp(-self.clip, self.clip) + self.clip


def needs_scaled_dot(other: object) -> str | None:
    """Why vectors that are added to keys cannot meet a score; None if it is the right one."""
    if not isinstance(other, Score) or other.is_scaled_dot:
        return None
    return (
        "its vectors are added to the keys of a scaled dot product and share its 1/sqrt(d); "
        "take scaled_dot"
    )


def pick(
    by_distance: Float[Tensor, "b h q r"], index: Int[Tensor, "*bi q k"]
) -> Float[Tensor, "b h q k"]:
    """by_distance[i, index[i,j]] for every pair."""
    return by_distance.gather(-1, index.expand(*by_distance.shape[:-1], -1))


def mass(
    weights: Float[Tensor, "b h q k"], index: Int[Tensor, "*bi q k"], n_distances: int
) -> Float[Tensor, "b h q r"]:
    """The sum of each row's weights that share an index."""
    exact = wide(weights)
    empty = exact.new_zeros(*weights.shape[:-1], n_distances)
    return empty.scatter_add(-1, index.expand(weights.shape), exact).to(weights.dtype)
