"""Folding: the keys and values of a short source, multiplied by the weights on their other side.

    (x W_Q[i]) k[i]ᵀ = x (W_Q[i] k[i]ᵀ),   (a[i] v[i]) W_O[i] = a[i] (v[i] W_O[i])

What depends on the source alone is computed once, and each step then reads h · s columns where it
read two whole matrices of weights. It is the same function, for heads of scaled dots and softmax.

Cost: O(s · m²) once; then O(s · h · m) for each query, and as many numbers for each sentence.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.caches import KeyValues
from regard.attention.heads.grouped_query import GroupedQueryHeads


class Folded(NamedTuple):
    """A source seen through the weights of one attention."""

    look: Float[Tensor, "b m hs"]
    """What a query is multiplied by: the scores of every head, key by key."""
    level: Float[Tensor, "b 1 hs"]
    """What the query's bias adds to the scores."""
    say: Float[Tensor, "b hs m"]
    """What every key says, mixed already."""
    bias: Float[Tensor, " m"] | None
    n_heads: int

    @classmethod
    def of(cls, heads: GroupedQueryHeads, source: KeyValues, scale: float) -> "Folded":
        """Fold a source that was projected.

        Args:
            heads: whose weights they are.
            source: all of its keys exist.
            scale: what dot products are multiplied by before the softmax.
        """
        n_heads, each = heads.dims.n_heads, heads.dims.n_heads // heads.n_groups
        key, value = (x.repeat_interleave(each, 1) if each > 1 else x for x in source[:2])
        W_Q = heads.W_Q.weight.unflatten(0, (n_heads, -1))
        W_O = heads.W_O.weight.mT.unflatten(0, (n_heads, -1))
        key = key * scale
        look, say = torch.matmul(key, W_Q).flatten(1, 2), torch.matmul(value, W_O).flatten(1, 2)
        level = look.new_zeros(len(look), 1, look.shape[1])
        if heads.has_bias:
            b_Q = heads.W_Q.bias.view(n_heads, -1, 1)
            level = torch.matmul(key, b_Q).flatten(1).unsqueeze(1)
        return cls(look.mT.contiguous(), level, say, heads.W_O.bias, n_heads)

    def attend(self, query: Float[Tensor, "r 1 m"]) -> Float[Tensor, "r 1 m"]:
        """Attend from one position of each row; rows of a sentence stand side by side."""
        b, m, columns = self.look.shape
        scores = torch.baddbmm(self.level, query.view(b, -1, m), self.look)
        weights = scores.view(b, -1, self.n_heads, columns // self.n_heads).softmax(-1)
        context = torch.bmm(weights.view(b, -1, columns), self.say).view(-1, 1, m)
        return context if self.bias is None else context + self.bias
