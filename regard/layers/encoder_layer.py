"""Encoder layer: self-attention over all positions, then a feed-forward at each.

    y = residual(x, attention),   out = residual(y, FFN)

Paper: Vaswani et al. 2017, section 3.1.
Cost: the attention's, plus O(n · m · f).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

from torch import Tensor, nn

from regard.attention import FULL, Attended, GroupedQueryHeads
from regard.attention.cached_attention import attend_with_cache
from regard.attention.caches import Past
from regard.attention.links import AnyMask
from regard.attention.shapes import Vectors
from regard.layers.residual import Residual
from regard.places import Places

Attend = Callable[[GroupedQueryHeads, Tensor], Attended]
"""Computes every head of an attention without joining the heads."""


class ReadingLayer(nn.Module, ABC):
    """A layer of self-attention, over all positions at once or after a cached past."""

    @abstractmethod
    def around(self, x: Tensor, attend: Attend) -> Tensor:
        """The whole layer around the heads that `attend` computes, which are joined here."""

    def forward(self, x: Vectors, mask: AnyMask = FULL, places: Places | None = None) -> Vectors:
        """Attend, then feed forward."""
        return self.around(x, lambda heads, z: heads.attend_with_cache(z, None, mask, places)[0])

    def step(
        self, x: Vectors, past: Past | None = None, mask: AnyMask = FULL
    ) -> tuple[Vectors, Past]:
        """The next positions after a past, under a causal mask, and the longer cache."""
        pasts: list[Past] = []

        def attend(heads: GroupedQueryHeads, z: Tensor) -> Attended:
            attended, longer = attend_with_cache(heads, z, past, mask)
            pasts.append(longer)
            return attended

        return self.around(x, attend), pasts[0]


@final
class EncoderLayer(ReadingLayer):
    """Self-attention and feed-forward, each inside its own residual."""

    def __init__(
        self,
        *,
        attention: GroupedQueryHeads,
        feed_forward: nn.Module,
        around_attention: Residual,
        around_feed_forward: Residual,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = around_attention, around_feed_forward

    def around(self, x: Tensor, attend: Attend) -> Tensor:
        """One residual after the other."""
        y = self.around_attention(
            x, lambda z: self.attention.join(attend(self.attention, z)).context
        )
        return self.around_feed_forward(y, self.feed_forward)
