"""Additive score: a small network compares every query with every key.

    e[i,j] = v · act(W q[i] + U k[j] + c)

Paper: Bahdanau, Cho & Bengio 2015, appendix A.1.2 (act = tanh, c = 0); Xu et al. 2015 (c learned).
Cost: time and memory O(q · k · d_hidden); query and key may differ in width.
"""

from collections.abc import Callable, Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Score
from regard.attention.shapes import Keys, Prepared, Queries, Scores
from regard.choices import find
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}


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
        self.held_per_pair = d_hidden
        self.W = nn.Parameter(torch.empty(dims.n_heads, dims.query, d_hidden))
        self.U = nn.Parameter(torch.empty(dims.n_heads, dims.key, d_hidden))
        self.v = nn.Parameter(torch.empty(dims.n_heads, d_hidden))
        self.c = nn.Parameter(torch.zeros(dims.n_heads, 1, d_hidden)) if has_bias else None
        self.activation = find(activation, ACTIVATIONS)
        for weight, fan_in in ((self.W, dims.query), (self.U, dims.key), (self.v, d_hidden)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def forward(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """Every query with every key, through the network."""
        return self.compare(query, self.prepared(key), places)

    def prepared(self, key: Keys) -> Prepared:
        """U k + c, one product for all sentences together."""
        keys = torch.einsum("bhkd,hdf->bhkf", key, self.U[:, : key.shape[-1]])
        return keys if self.c is None else keys + self.c

    def compare(self, query: Queries, prepared: Prepared, places: Places | None = None) -> Scores:
        """Every query with every U k + c."""
        return self._energy(self._pairs(query, prepared))

    def compare_covered(self, query: Queries, prepared: Prepared, covered: Scores) -> Scores:
        """The same, with U's last row for what each key has received."""
        pairs = self._pairs(query, prepared) + covered[..., None] * self.U[:, -1:, None]
        return self._energy(pairs)

    def _pairs(self, query: Tensor, prepared: Tensor) -> Float[Tensor, "b h q k f"]:
        return (query @ self.W)[..., :, None, :] + prepared[..., None, :, :]

    def _energy(self, pairs: Float[Tensor, "b h q k f"]) -> Scores:
        return torch.einsum("bhqkf,hf->bhqk", self.activation(pairs), self.v)
