"""Batched source: keys and values of all sentences and heads, laid out for one batched product.

    context = softmax(scale · q kᵀ + bias) v        for every sentence and head at once

Between two steps of a search the source stays the same, so that it is laid out once. The bias hides
the padding. The function is that of heads of scaled dots and softmax.

Cost: a second copy of keys and values; O(s · d) for each query of a head.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.caches import KeyValues
from regard.attention.heads.grouped_query import GroupedQueryHeads


class BatchedSource(NamedTuple):
    """A projected source, head by head."""

    key: Float[Tensor, "bh d s"]
    value: Float[Tensor, "bh s d"]
    bias: Float[Tensor, "bh 1 s"]
    scale: float

    @classmethod
    def of(
        cls,
        heads: GroupedQueryHeads,
        source: KeyValues,
        valid: Bool[Tensor, "b s"] | None,
        scale: float,
    ) -> "BatchedSource":
        """Lay out a projected source; `valid` says which keys exist, None that all do."""
        key, value = (each.flatten(0, 1) for each in heads.by_head(source))
        bias = key.new_zeros(len(source.key), source.length)
        if valid is not None:
            has_keys = valid.any(1, keepdim=True)
            bias = bias.masked_fill(~valid & has_keys, -torch.inf)
            # of a source without keys nothing is read
            value = value * has_keys.repeat_interleave(heads.dims.n_heads, 0)[..., None]
        bias = bias.repeat_interleave(heads.dims.n_heads, 0).unsqueeze(1)
        return cls(key.mT.contiguous(), value.contiguous(), bias, scale)

    def attend(self, queries: Float[Tensor, "b h w d"]) -> Float[Tensor, "b h w d"]:
        """Attend from queries of every sentence and head."""
        scores = torch.baddbmm(self.bias, queries.flatten(0, 1), self.key, alpha=self.scale)
        return torch.bmm(scores.softmax(-1), self.value).view(queries.shape)
