"""Concat score: one layer reads query and key side by side.

    e[i,j] = v · tanh(W [q[i]; k[j]])

Paper: Luong, Pham & Manning 2015, equation 8 (concat), with the full matrix W as printed.
Cost: time O(q · k · d_hidden), memory O(q · k).
"""

from typing import final

import torch
from torch import nn

from regard.attention.links import Score
from regard.attention.pair_network import pair_numbers, read_out
from regard.attention.shapes import Keys, Prepared, Queries, Scores
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class ConcatScore(nn.Module, Score):
    """A layer over the joined vectors, one for each head."""

    is_movable = True

    def __init__(self, dims: Dims, *, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = dims.query if d_hidden is None else d_hidden
        check_least("concat: d_hidden", d_hidden, 1)
        self.widths = Widths(dims.n_heads, dims.query, dims.key)
        self.d_query, d_joined = dims.query, dims.query + dims.key
        self.W = nn.Parameter(torch.empty(dims.n_heads, d_joined, d_hidden))
        self.v = nn.Parameter(torch.empty(dims.n_heads, d_hidden))
        nn.init.uniform_(self.W, -(d_joined**-0.5), d_joined**-0.5)
        nn.init.uniform_(self.v, -(d_hidden**-0.5), d_hidden**-0.5)

    def extra_repr(self) -> str:
        """The width of its layer."""
        return f"d_hidden={self.v.shape[-1]}"

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query beside every key; W is split so that no pair is ever joined in memory."""
        return self.compare(query, self.prepared(key), places)

    def prepared(self, key: Keys) -> Prepared:
        """The keys through their rows of W, one product for all sentences together."""
        rows = self.W[:, self.d_query : self.d_query + key.shape[-1]]
        return torch.einsum("bhkd,hdf->bhkf", key, rows)

    def compare(self, query: Queries, prepared: Prepared, places: Places | None = None) -> Scores:
        """Every query through its rows of W, beside every prepared key."""
        return pair_numbers(query @ self.W[:, : self.d_query], prepared, self.v, torch.tanh)

    def compare_covered(self, query: Queries, prepared: Prepared, covered: Scores) -> Scores:
        """The same, with W's last row for what each key has received."""
        pairs = (query @ self.W[:, : self.d_query])[..., :, None, :] + prepared[..., None, :, :]
        return read_out((pairs + covered[..., None] * self.W[:, -1:, None]).tanh(), self.v)
