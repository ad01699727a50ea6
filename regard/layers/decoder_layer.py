"""Decoder layer: causal self-attention, cross-attention to the source, then a feed-forward.

    y = residual(x, self-attention),   z = residual(y, cross-attention),   out = residual(z, FFN)

Paper: Vaswani et al. 2017, section 3.1.
Cost: both attentions', plus O(n · m · f).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import FULL, Attended, GroupedQueryHeads, KeyValues, all_of, given
from regard.attention.batched_source import BatchedSource
from regard.attention.cached_attention import attend_with_cache
from regard.attention.caches import Past
from regard.attention.caches import reordered as reordered_pasts
from regard.attention.folded_source import Folded
from regard.attention.links import AnyMask, Pattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.shapes import Vectors
from regard.layers.encoder_layer import Attend
from regard.layers.residual import Residual
from regard.places import Places

CAUSAL = CausalPattern()


class DecoderCache(NamedTuple):
    """The cache of one decoder layer between steps: its own past, and the source.

    The past has a row for each hypothesis, the source one for each sentence.
    """

    past: Past | None
    source: KeyValues
    folded: Folded | None = None
    """The source multiplied by the layer's weights, if the layer folds it."""
    batched: BatchedSource | None = None
    """The source laid out for batched products, if the layer makes such."""

    @property
    def length(self) -> int:
        """The number of positions in the past."""
        return 0 if self.past is None else self.past.length

    @property
    def width(self) -> int:
        """The number of hypotheses of a sentence."""
        return 1 if self.past is None else self.past.n_rows // self.source.n_rows

    def select(self, rows: Int[Tensor, " r"]) -> "DecoderCache":
        """The past of some rows of the batch; the source is kept once for each sentence."""
        return self._replace(past=None if self.past is None else self.past.select(rows))

    def keep(self, rows: Int[Tensor, " r"], sentences: Int[Tensor, " b"]) -> "DecoderCache":
        """The past of some rows, and the source of the sentences that they write."""
        return DecoderCache(self.select(rows).past, self.source.select(sentences))


def reordered(caches: Sequence[DecoderCache], rows: Int[Tensor, " r"]) -> tuple[DecoderCache, ...]:
    """The pasts of some rows, for all layers at once; these caches must not be used again."""
    if caches[0].past is None:
        # before the first token there is no past
        return tuple(caches)
    pasts = [cache.past for cache in caches if isinstance(cache.past, KeyValues)]
    if len(pasts) < len(caches):
        # windows and slots of several layers have no storage in common
        return tuple(cache.select(rows) for cache in caches)
    moved = reordered_pasts(pasts, rows)
    return tuple(cache._replace(past=past) for past, cache in zip(moved, caches, strict=True))


class WritingLayer(nn.Module, ABC):
    """A layer that attends to earlier positions, then to the source, and caches both."""

    attention: GroupedQueryHeads
    around_attention: Residual

    @abstractmethod
    def read(self, y: Tensor, attend: Attend) -> Tensor:
        """The part after the self-attention; `attend` is the heads' attention to the source."""

    @abstractmethod
    def start(self, source: Float[Tensor, "b k ms"]) -> DecoderCache:
        """Project the source once, before the first step."""

    def forward(
        self,
        x: Vectors,
        source: Float[Tensor, "b k ms"],
        mask: AnyMask = FULL,
        source_mask: AnyMask = FULL,
    ) -> Vectors:
        """All target positions at once; none sees a later one, whatever the mask says."""
        heads, causal = self.attention, _causal(mask)
        return self._through(
            x,
            lambda z: heads.attend_with_cache(z, None, causal)[0],
            self.start(source),
            source_mask,
        )

    def step(
        self, x: Vectors, cache: DecoderCache, mask: AnyMask = FULL, source_mask: AnyMask = FULL
    ) -> tuple[Vectors, DecoderCache]:
        """The next positions and the longer cache; the layer itself keeps no state."""
        causal, pasts = _causal(mask), list[Past]()

        def own_past(z: Tensor) -> Attended:
            attended, past = attend_with_cache(self.attention, z, cache.past, causal)
            pasts.append(past)
            return attended

        out = self._through(x, own_past, cache, source_mask)
        return out, DecoderCache(pasts[0], cache.source)

    def _through(
        self,
        x: Vectors,
        own_past: Callable[[Tensor], Attended],
        cache: DecoderCache,
        source_mask: AnyMask,
    ) -> Vectors:
        """The whole layer around `own_past`, the heads' attention to the target."""
        y = self.around_attention(x, lambda z: self.attention.join(own_past(z)).context)
        at = Places.between(x.shape[1], cache.source.length, past=cache.length, device=x.device)
        return self.read(
            y, lambda heads, z: heads.attend_to_memory(z, cache.source, source_mask, at)
        )


def _causal(mask: AnyMask) -> Pattern:
    return all_of(CAUSAL, given(mask) if isinstance(mask, Tensor) else mask)


@final
class DecoderLayer(WritingLayer):
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

    def start(self, source: Float[Tensor, "b k ms"]) -> DecoderCache:
        """Project the source once, before the first step."""
        return DecoderCache(None, self.cross_attention.remember(source, source))

    def read(self, y: Tensor, attend: Attend) -> Tensor:
        """Attend to the source, then feed forward."""
        heads = self.cross_attention
        z = self.around_cross_attention(y, lambda z: heads.join(attend(heads, z)).context)
        return self.around_feed_forward(z, self.feed_forward)
