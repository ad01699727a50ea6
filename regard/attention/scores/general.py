"""General score: a matrix learns which directions of the query should meet which of the key.

    e[i,j] = q[i] · W k[j]

Paper: Luong, Pham & Manning 2015, equation 8 (general).
Cost: time O(q · d_query · d_key + q · k · d_key), d_query · d_key parameters; widths may differ.
"""

from typing import final

import torch
from torch import nn

from regard.attention.links import Dot, Score
from regard.attention.shapes import Keys, Prepared, Queries, Scores
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.places import Places


@final
class GeneralScore(nn.Module, Score):
    """A bilinear form, one matrix for each head."""

    is_movable = True

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.widths = Widths(dims.n_heads, dims.query, dims.key)
        self.W = nn.Parameter(torch.empty(dims.n_heads, dims.query, dims.key))
        nn.init.uniform_(self.W, -(dims.query**-0.5), dims.query**-0.5)

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key, through W."""
        return query @ self.W @ key.mT

    def as_dot(self, query: Queries, key: Keys) -> Dot:
        """The dot product of W's side of the query with the key."""
        return Dot(query @ self.W, key, scale=1.0)

    def prepared(self, key: Keys) -> Prepared:
        """W k, one product for all sentences together."""
        return torch.einsum("bhkd,hpd->bhkp", key, self.W[..., : key.shape[-1]])

    def compare(self, query: Queries, prepared: Prepared, places: Places | None = None) -> Scores:
        """Every query with every W k."""
        return query @ prepared.mT

    def compare_covered(self, query: Queries, prepared: Prepared, covered: Scores) -> Scores:
        """The same, with W's last column for what each key has received."""
        return query @ prepared.mT + query @ self.W[..., -1:] * covered
