"""Folded source: keys and values of a short source, premultiplied by the query and output weights.

    (x W_Q[i]) k[i]ᵀ = x (W_Q[i] k[i]ᵀ),   (a[i] v[i]) W_O[i] = a[i] (v[i] W_O[i])

The products with the source are computed once, and each step then reads h · s columns instead of
two whole matrices of weights. The function is the same, for heads of scaled dots and softmax.

Cost: O(s · m²) once; then O(s · h · m) for each query, and as many numbers for each sentence.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.caches import KeyValues
from regard.attention.heads.grouped_query import GroupedQueryHeads


class Folded(NamedTuple):
    """A source multiplied by the weights of one attention."""

    key: Float[Tensor, "b m hs"]
    """The matrix that turns a query into the scores of every head, key by key."""
    query_bias: Float[Tensor, "b 1 hs"]
    """The part of the scores that comes from the query's bias."""
    value: Float[Tensor, "b hs m"]
    """The values of every head after the output projection."""
    bias: Float[Tensor, " m"] | None
    n_heads: int

    @classmethod
    def of(cls, heads: GroupedQueryHeads, source: KeyValues, scale: float) -> "Folded":
        """Fold a projected source, all of whose keys exist, with the weights of some heads.

        `scale` multiplies the dot products before the softmax.
        """
        n_heads, (key, value) = heads.dims.n_heads, heads.by_head(source)
        W_Q = heads.W_Q.weight.unflatten(0, (n_heads, -1))
        W_O = heads.W_O.weight.mT.unflatten(0, (n_heads, -1))
        key, added = key * scale, key.new_zeros(len(key), 1, n_heads * source.length)
        columns, rows = (torch.matmul(x, W).flatten(1, 2) for x, W in ((key, W_Q), (value, W_O)))
        if heads.has_bias:
            b_Q = heads.W_Q.bias.view(n_heads, -1, 1)
            added = torch.matmul(key, b_Q).flatten(1).unsqueeze(1)
        return cls(columns.mT.contiguous(), added, rows, heads.W_O.bias, n_heads)

    def attend(self, query: Float[Tensor, "r 1 m"]) -> Float[Tensor, "r 1 m"]:
        """Attend from one position of each row; rows of a sentence are adjacent."""
        b, m, columns = self.key.shape
        scores = torch.baddbmm(self.query_bias, query.view(b, -1, m), self.key)
        weights = scores.view(b, -1, self.n_heads, columns // self.n_heads).softmax(-1)
        context = torch.bmm(weights.view(b, -1, columns), self.value).view(-1, 1, m)
        return context if self.bias is None else context + self.bias
