"""Location score: the query alone says where to look; the keys' content is never read.

    e[i,j] = (W q[i])[j],   W: max_len rows

Paper: Luong, Pham & Manning 2015, equation 7.
Cost: time O(q · k · d_query), d_query · max_len parameters; no sequence longer than max_len.
"""

from typing import final

import torch
from torch import nn

from regard.attention.links import Score
from regard.attention.shapes import Keys, Queries, Scores
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import LengthError
from regard.places import Places


@final
class LocationScore(nn.Module, Score):
    """One row of W for each position; a short source uses the top rows."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.max_len = dims.max_len
        self.widths = Widths(dims.n_heads, dims.query)
        self.W = nn.Parameter(torch.empty(dims.n_heads, dims.query, dims.max_len))
        nn.init.uniform_(self.W, -(dims.query**-0.5), dims.query**-0.5)

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every position."""
        places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        if places.length > self.max_len:
            raise LengthError(
                f"location: {places.length} keys, but max_len is {self.max_len}. Take a larger "
                "max_len (model.max_len of a recipe), or a score that reads the keys (dot, "
                "general, additive)."
            )
        # a key that stands nowhere is behind all others, and a mask hides it
        at = places.key.clamp(max=self.max_len - 1).expand(*query.shape[:-1], -1)
        return (query @ self.W).gather(-1, at)

    def stops_gradient(self) -> str:
        """Projections of keys have no gradient, since keys are not read."""
        return (
            'score = "location" reads no keys, and so heads learn no W_K. Take score = '
            '"scaled_dot", "general" or "additive", or a recurrent model, whose keys have no '
            "projection."
        )
