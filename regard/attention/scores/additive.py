"""Additive score: a small network compares every query with every key.

    e[i,j] = v · act(W q[i] + U k[j] + c)

Paper: Bahdanau, Cho & Bengio 2015, appendix A.1.2 (act = tanh, c = 0); Xu et al. 2015 (c learned).
Cost: time O(q · k · d_hidden), memory O(q · k); query and key may differ in width.
"""

from typing import final

import torch
from torch import nn

from regard.attention.links import Score
from regard.attention.pair_network import ACTIVATIONS, pair_numbers, read_out
from regard.attention.shapes import Keys, Prepared, Queries, Scores
from regard.attention.widths import Widths
from regard.choices import find
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class AdditiveScore(nn.Module, Score):
    """Bahdanau's alignment network; with `has_bias` the perceptron of Show, Attend and Tell."""

    is_movable = True

    def __init__(
        self,
        dims: Dims,
        *,
        d_hidden: int | None = None,
        activation: str = "tanh",
        has_bias: bool = False,
    ) -> None:
        super().__init__()
        d_hidden = dims.query if d_hidden is None else d_hidden
        check_least("additive: d_hidden", d_hidden, 1)
        self.widths = Widths(dims.n_heads, dims.query, dims.key)
        self.W = nn.Parameter(torch.empty(dims.n_heads, dims.query, d_hidden))
        self.U = nn.Parameter(torch.empty(dims.n_heads, dims.key, d_hidden))
        self.v = nn.Parameter(torch.empty(dims.n_heads, d_hidden))
        self.c = nn.Parameter(torch.zeros(dims.n_heads, 1, d_hidden)) if has_bias else None
        self.activation = find(activation, ACTIVATIONS)
        for weight, fan_in in ((self.W, dims.query), (self.U, dims.key), (self.v, d_hidden)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def extra_repr(self) -> str:
        """The width of its network, and what differs from Bahdanau's."""
        other = "" if self.activation is torch.tanh else f", activation={self.activation.__name__}"
        return f"d_hidden={self.v.shape[-1]}{other}" + ", has_bias=true" * (self.c is not None)

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key, through the network."""
        return self.compare(query, self.prepared(key), places)

    def prepared(self, key: Keys) -> Prepared:
        """U k + c, one product for all sentences together."""
        keys = torch.einsum("bhkd,hdf->bhkf", key, self.U[:, : key.shape[-1]])
        return keys if self.c is None else keys + self.c

    def compare(self, query: Queries, prepared: Prepared, places: Places | None = None) -> Scores:
        """Every query with every U k + c."""
        return pair_numbers(query @ self.W, prepared, self.v, self.activation)

    def compare_covered(self, query: Queries, prepared: Prepared, covered: Scores) -> Scores:
        """The same, with U's last row for what each key has received."""
        pairs = (query @ self.W)[..., :, None, :] + prepared[..., None, :, :]
        return read_out(self.activation(pairs + covered[..., None] * self.U[:, -1:, None]), self.v)
