"""Encoder layer: every position looks at all others, then thinks for itself.

    y = residual(x, attention),   out = residual(y, FFN)

Paper: Vaswani et al. 2017, section 3.1.
Cost: the attention's, plus O(n · m · f).
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import FULL, GroupedQueryHeads
from regard.attention.links import Pattern
from regard.attention.looking_back import Past, look_back
from regard.layers.residual import Residual
from regard.places import Places


@final
class EncoderLayer(nn.Module):
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

    def forward(
        self,
        x: Float[Tensor, "b n m"],
        mask: Pattern | Tensor = FULL,
        places: Places | None = None,
    ) -> Float[Tensor, "b n m"]:
        """Attend, then feed forward."""
        y = self.around_attention(x, lambda z: self.attention(z, mask=mask, places=places).context)
        return self.around_feed_forward(y, self.feed_forward)

    def step(
        self,
        x: Float[Tensor, "b n m"],
        past: Past | None = None,
        mask: Pattern | Tensor = FULL,
    ) -> tuple[Float[Tensor, "b n m"], Past]:
        """The next positions behind a past, under a causal mask; what is remembered comes back."""
        kept: list[Past] = []

        def own_past(z: Tensor) -> Tensor:
            heads, longer = look_back(self.attention, z, past, mask)
            kept.append(longer)
            return self.attention.join(heads).context

        y = self.around_attention(x, own_past)
        return self.around_feed_forward(y, self.feed_forward), kept[0]

    def arrange(self) -> None:
        """Make one product of the three with which new positions look at their own past."""
        self.attention.stack()
