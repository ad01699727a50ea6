"""Bucketed relation: one learned number for each head and bucket of distance, added to the score.

    e[i,j] += t[h, bucket(j - i)]

Paper: Raffel et al. 2020 (T5), section 2.1: near distances each a bucket, far ones logarithmic.
Cost: time O(q · k), n_buckets numbers per head; T5 shares one table between all layers.
"""

import math
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.banded import Banded
from regard.attention.links import Relation
from regard.attention.shapes import Bias, Queries
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


@final
class BucketedRelation(nn.Module, Relation):
    """A table of biases: half of the buckets for each direction, unless keys only come before.

    From `max_distance` on all distances share the last bucket.
    """

    is_movable, reads_query = True, False

    def __init__(
        self, dims: Dims, *, n_buckets: int = 32, max_distance: int = 128, is_causal: bool = False
    ) -> None:
        super().__init__()
        per_side = n_buckets if is_causal else n_buckets // 2
        if per_side < 2 or max_distance <= per_side // 2:
            raise SettingError(
                f"bucketed: {n_buckets} buckets cannot reach distance {max_distance}. Take at "
                "least 4 buckets, and a max_distance above half of those on one side."
            )
        self.per_side, self.max_distance, self.is_causal = per_side, max_distance, is_causal
        self.reach = max_distance
        self.widths = Widths(dims.n_heads)
        self.t = nn.Parameter(torch.zeros(dims.n_heads, n_buckets))

    def extra_repr(self) -> str:
        """How many buckets there are, and how far they reach."""
        return (
            f"n_buckets={self.t.shape[-1]}, max_distance={self.max_distance}"
            + ", is_causal=true" * self.is_causal
        )

    def as_bias(self, places: Places) -> Bias:
        """The table at every pair's bucket."""
        bias = self.t[:, self.bucket(places.offsets)]
        # places that differ from head to head: each head's own bias
        return bias if places.key.dim() == 2 else bias.diagonal(dim1=0, dim2=2).movedim(-1, 1)

    def as_banded(self, query: Queries) -> Banded:
        """One row of biases for all queries; far distances share the last bucket."""
        offsets = torch.arange(-self.max_distance, self.max_distance + 1, device=self.t.device)
        return Banded(self.t[None, :, self.bucket(offsets[None])], None)

    def bucket(self, offsets: Int[Tensor, "*b q k"]) -> Int[Tensor, "*b q k"]:
        """Which bucket an offset (key minus query) falls into."""
        side = torch.zeros_like(offsets) if self.is_causal else (offsets > 0) * self.per_side
        distance = (-offsets).clamp(min=0) if self.is_causal else offsets.abs()
        n_exact = self.per_side // 2
        steps = math.log(self.max_distance / n_exact)
        growth = (distance.clamp(min=1).double() / n_exact).log() / steps
        # a distance on the border of two buckets must not fall short of it by rounding
        far = n_exact + (growth * (self.per_side - n_exact) + 1e-9).long()
        return side + torch.where(distance < n_exact, distance, far.clamp(max=self.per_side - 1))
