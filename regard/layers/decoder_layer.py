"""Decoder layer: look back at what was written, look at the source, then think.

    y = residual(x, self-attention),   z = residual(y, cross-attention),   out = residual(z, FFN)

Paper: Vaswani et al. 2017, section 3.1.
Cost: both attentions', plus O(n · m · f).
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import FULL, GroupedQueryHeads, KeyValues, all_of, given
from regard.attention.caches import reordered as reordered_pasts
from regard.attention.folded_source import Folded
from regard.attention.links import Pattern
from regard.attention.patterns.causal import CausalPattern
from regard.layers.residual import Residual
from regard.places import Places

CAUSAL = CausalPattern()


class DecoderCache(NamedTuple):
    """What one decoder layer remembers between steps: its own past, and the source.

    The past has a row for each hypothesis, the source one for each sentence.
    """

    past: KeyValues | None
    source: KeyValues
    folded: Folded | None = None
    """The source once more, if the layer looks at it through its own weights."""

    @property
    def length(self) -> int:
        """How many positions of the past it holds."""
        return 0 if self.past is None else self.past.length

    @property
    def width(self) -> int:
        """How many hypotheses a sentence has."""
        return 1 if self.past is None else self.past.key.shape[0] // self.source.key.shape[0]

    def select(self, rows: Int[Tensor, " r"]) -> "DecoderCache":
        """The past of some rows of the batch; the source is kept once for each sentence."""
        return self._replace(past=None if self.past is None else self.past.select(rows))

    def keep(self, rows: Int[Tensor, " r"], sentences: Int[Tensor, " b"]) -> "DecoderCache":
        """The past of some rows, and the source of the sentences that they write."""
        return DecoderCache(self.select(rows).past, self.source.select(sentences))


def reordered(caches: Sequence[DecoderCache], rows: Int[Tensor, " r"]) -> tuple[DecoderCache, ...]:
    """The pasts of some rows, for all layers at once; these caches must not be used again."""
    pasts = [cache.past for cache in caches if cache.past is not None]
    if len(pasts) < len(caches):
        # nothing is written yet
        return tuple(caches)
    moved = reordered_pasts(pasts, rows)
    return tuple(cache._replace(past=past) for past, cache in zip(moved, caches, strict=True))


@final
class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each inside its own residual."""

    def __init__(
        self,
        *,
        attention: GroupedQueryHeads,
        cross_attention: GroupedQueryHeads,
        feed_forward: nn.Module,
        around_attention: Residual,
        around_cross_attention: Residual,
        around_feed_forward: Residual,
    ) -> None:
        super().__init__()
        self.attention, self.cross_attention = attention, cross_attention
        self.feed_forward = feed_forward
        self.around_attention = around_attention
        self.around_cross_attention = around_cross_attention
        self.around_feed_forward = around_feed_forward

    def forward(
        self,
        x: Float[Tensor, "b n m"],
        source: Float[Tensor, "b k ms"],
        mask: Pattern | Tensor = FULL,
        source_mask: Pattern | Tensor = FULL,
    ) -> Float[Tensor, "b n m"]:
        """All target positions at once; none sees a later one, whatever the mask says."""
        return self.step(x, self.start(source), mask, source_mask)[0]

    def start(self, source: Float[Tensor, "b k ms"]) -> DecoderCache:
        """Project the source once, before the first step."""
        return DecoderCache(None, self.cross_attention.remember(source, source))

    def step(
        self,
        x: Float[Tensor, "b n m"],
        cache: DecoderCache,
        mask: Pattern | Tensor = FULL,
        source_mask: Pattern | Tensor = FULL,
    ) -> tuple[Float[Tensor, "b n m"], DecoderCache]:
        """The next positions; the longer cache comes back, nothing is hidden in the layer."""
        causal = all_of(CAUSAL, given(mask) if isinstance(mask, Tensor) else mask)
        at = Places.between(x.shape[1], cache.source.length, past=cache.length, device=x.device)
        kept: list[KeyValues] = []

        def own_past(z: Tensor) -> Tensor:
            attended, past = self.attention.step(z, cache.past, causal)
            kept.append(past)
            return attended.context

        def the_source(z: Tensor) -> Tensor:
            heads = self.cross_attention.look(z, cache.source, source_mask, at)
            return self.cross_attention.join(heads).context

        y = self.around_attention(x, own_past)
        z = self.around_cross_attention(y, the_source)
        return self.around_feed_forward(z, self.feed_forward), DecoderCache(kept[0], cache.source)

    def arrange(self) -> None:
        """Make one product of the three with which new positions look at their own past."""
        self.attention.stack()
