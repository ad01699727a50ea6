"""Band: the keys at a distance below `reach` of each query, in blocks of rows.

    score[i,j] = scale · q[i] · k[j] + by_distance[i, c],   c = j - i + reach,   |j - i| < reach

A block of rows and the stretch of keys around it is one small matrix product. In its rows, laid out
one after another, the band is a parallelogram: a view with strides reads and writes it, so that no
index is ever made. Memory O(q · (block + 2 reach)).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.links import wide

LEAST_BLOCK = 64
"""Rows in a block, unless the reach is longer."""


class RelatedGradients(NamedTuple):
    """Gradients of a part of the map; of the relation by each row's distances."""

    query: Tensor
    """Without what goes through `by_distance`."""
    key: Tensor
    value: Tensor
    by_distance: Float[Tensor, "b h #q r"]
    mass: Float[Tensor, "b h q r"] | None
    """Each row's weight at each distance; None if the relation has no vectors for the values."""


@dataclass(frozen=True)
class Band:
    """The band of a map by plain tensor algebra: its size, the keys before it, and its mask."""

    n_queries: int
    n_keys: int
    past: int
    reach: int
    is_causal: bool
    valid: Bool[Tensor, "b k"] | None
    scale: float

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        by_distance: Float[Tensor, "#b #h #q r"],
        to_values: Float[Tensor, "#h r dv"] | None,
    ) -> tuple[Tensor, Tensor]:
        """Context and log-sum-exp; minus infinity for a row without a key in the band."""
        near = self._scores(query, key, by_distance)
        lse = near.logsumexp(-1)
        weights = (near - lse.masked_fill(lse == -torch.inf, 0.0)[..., None]).exp()
        context = wide(self._joined(self._spread(weights.to(value.dtype)) @ self._stretches(value)))
        if to_values is not None:
            context = context + weights @ wide(to_values[:, 1:-1])
        return context, lse

    def gradients(
        self,
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        lse: Tensor,
        by_distance: Float[Tensor, "#b #h #q r"],
        to_values: Float[Tensor, "#h r dv"] | None,
    ) -> RelatedGradients:
        """The gradients, from the context and the log-sum-exp of the whole map."""
        weights = (self._scores(query, key, by_distance) - lse[..., None]).exp()
        gain = self._gather(grad, value) - (wide(grad) * wide(out)).sum(-1, keepdim=True)
        if to_values is not None:
            gain = gain + wide(grad) @ wide(to_values[:, 1:-1]).mT
        d_near = weights * gain
        d_scores = self._spread(d_near.to(query.dtype))
        d_query = self._joined(d_scores @ self._stretches(key)) * self.scale
        d_key = self._folded(d_scores.mT @ self._blocks(query)) * self.scale
        d_value = self._folded(self._spread(weights.to(value.dtype)).mT @ self._blocks(grad))
        # the outer distances stand beside those of the band
        mass = None if to_values is None else pad(weights, (1, 1))
        return RelatedGradients(d_query, d_key, d_value, pad(d_near, (1, 1)), mass)

    def _scores(
        self, query: Tensor, key: Tensor, by_distance: Float[Tensor, "#b #h #q r"]
    ) -> Float[Tensor, "b h q rb"]:
        """The scores by distance; minus infinity where there is no key."""
        near = self._gather(query, key) * self.scale + wide(by_distance[..., 1:-1])
        return near.masked_fill(~self._exists(query.device), -torch.inf)

    @property
    def _block(self) -> int:
        return max(LEAST_BLOCK, self.reach)

    @property
    def _n_blocks(self) -> int:
        return max(1, -(-self.n_queries // self._block))

    @property
    def _width(self) -> int:
        """Distances in the band."""
        return 2 * self.reach - 1

    @property
    def _stretch(self) -> int:
        """Keys around a block."""
        return self._block + self._width - 1

    @property
    def _margins(self) -> tuple[int, int]:
        """Positions before the first key and after the last that the blocks' stretches take."""
        # no key is near the queries if they stand far behind all of them
        before = max(self.reach - 1 - self.past, -self.n_keys)
        n_all = (self._n_blocks - 1) * self._block + self._stretch
        return before, n_all - before - self.n_keys

    def _blocks(self, rows: Float[Tensor, "b h q d"]) -> Float[Tensor, "b h n s d"]:
        """The rows in blocks, the last one filled with zeros."""
        filled = pad(rows, (0, 0, 0, self._n_blocks * self._block - self.n_queries))
        return filled.unflatten(-2, (self._n_blocks, self._block))

    def _stretches(self, keys: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h n w d"]:
        """The keys around each block, as overlapping views."""
        return pad(keys, (0, 0, *self._margins)).unfold(-2, self._stretch, self._block).mT

    def _gather(self, rows: Tensor, keys: Tensor) -> Float[Tensor, "b h q r"]:
        """rows[i] · keys[j] by distance, in single precision at least."""
        products = wide((self._blocks(rows) @ self._stretches(keys).mT).contiguous())
        return self._joined(_parallelogram(products, self._width))

    def _spread(self, by_distance: Float[Tensor, "b h q r"]) -> Float[Tensor, "b h n s w"]:
        """Numbers by distance at their places in each block's matrix, zeros elsewhere."""
        blocks = self._blocks(by_distance)
        whole = blocks.new_zeros(*blocks.shape[:-1], self._stretch)
        _parallelogram(whole, self._width).copy_(blocks)
        return whole

    def _joined(self, blocks: Float[Tensor, "b h n s d"]) -> Float[Tensor, "b h q d"]:
        """The blocks' rows one after another, without those that fill the last one."""
        return blocks.flatten(-3, -2)[..., : self.n_queries, :]

    def _folded(self, stretches: Float[Tensor, "b h n w d"]) -> Float[Tensor, "b h k d"]:
        """The sum over all blocks of what each key got."""
        b, h, n, width, d = stretches.shape
        n_parts = -(-width // self._block)
        total = stretches.new_zeros(b, h, n + n_parts - 1, self._block, d)
        for part in range(n_parts):
            piece = stretches[..., part * self._block : (part + 1) * self._block, :]
            total[:, :, part : part + n, : piece.shape[-2]] += piece
        before, _ = self._margins
        after = self.n_keys + before - total.shape[2] * self._block
        return pad(total.flatten(2, 3), (0, 0, -before, after))

    def _exists(self, device: torch.device) -> Bool[Tensor, "*b q r"]:
        """Which distances of a row lead to a key that it may see."""
        ones = torch.ones(1, self.n_keys, dtype=torch.bool, device=device)
        known = ones if self.valid is None else self.valid[:, : self.n_keys]
        filled = pad(known, self._margins, value=False)
        exists = filled.unfold(-1, self._width, 1)[:, None, : self.n_queries]
        if not self.is_causal:
            return exists
        return exists & (torch.arange(self._width, device=device) < self.reach)


def _parallelogram(blocks: Float[Tensor, "b h n s w"], width: int) -> Float[Tensor, "b h n s r"]:
    """The view in which each row begins one number later than the row above it."""
    *outer, row, _ = blocks.stride()
    return blocks.as_strided((*blocks.shape[:-1], width), (*outer, row + 1, 1))
