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

from regard.attention.banded import Banded
from regard.attention.links import Relation, wide
from regard.attention.shapes import Context, Queries, Scores, Weights
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class ShawRelation(nn.Module, Relation):
    """Tables for keys and for values, one for each head or shared by all."""

    is_movable, adds_to_keys, is_shared = True, True, False

    def __init__(self, dims: Dims, *, clip: int = 16, is_shared: bool = False) -> None:
        super().__init__()
        check_least("shaw: clip", clip, 0)
        self.clip, self.is_shared = clip, is_shared
        self.reach = max(1, clip)
        n_tables = 1 if is_shared else dims.n_heads
        self.widths = Widths(n_tables, dims.query, value=dims.value)
        self.wK = nn.Parameter(torch.empty(n_tables, 2 * clip + 1, dims.query))
        self.wV = nn.Parameter(torch.empty(n_tables, 2 * clip + 1, dims.value))
        for table in (*self.wK, *self.wV):
            nn.init.xavier_uniform_(table)

    def extra_repr(self) -> str:
        """The clip, and whether the heads share tables."""
        return f"clip={self.clip}" + ", is_shared=true" * self.is_shared

    def to_scores(self, query: Queries, places: Places) -> Scores:
        """q[i] · wK[c] for every pair: a q × (2 clip + 1) product, then a gather."""
        by_distance = query @ self.wK.mT * query.shape[-1] ** -0.5
        return pick(by_distance, self._index(places))

    def to_context(self, weights: Weights, places: Places) -> Context:
        """The mass of each distance times its vector: a scatter, then a product."""
        return mass(weights, self._index(places), 2 * self.clip + 1) @ self.wV

    def as_banded(self, query: Queries) -> Banded:
        """Both tables, beyond the clip one number and one vector a side."""
        if self.clip:
            return Banded(None, self.wV, to_keys=self.wK)
        # without a clip all distances share one vector, that of distance 1 too
        wK, wV = (table.repeat_interleave(3, -2) for table in (self.wK, self.wV))
        return Banded(None, wV, to_keys=wK)

    def _index(self, places: Places) -> Int[Tensor, "*b q k"]:
        return places.offsets.clamp(-self.clip, self.clip) + self.clip


def pick(by_distance: Float[Tensor, "b h q r"], index: Int[Tensor, "*bi q k"]) -> Scores:
    """by_distance[i, index[i,j]] for every pair."""
    return by_distance.gather(-1, index.expand(*by_distance.shape[:-1], -1))


def mass(
    weights: Weights, index: Int[Tensor, "*bi q k"], n_distances: int
) -> Float[Tensor, "b h q r"]:
    """The sum of each row's weights that share an index."""
    exact = wide(weights)
    empty = exact.new_zeros(*weights.shape[:-1], n_distances)
    return empty.scatter_add(-1, index.expand(weights.shape), exact).to(weights.dtype)
