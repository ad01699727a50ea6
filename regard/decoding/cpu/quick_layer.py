"""Quick layer: a decoder layer that writes one token at a time on the CPU, with fewer calls.

A step of one sentence multiplies few rows, and choosing the path of each attention takes as long as
computing it. For heads of dot products and softmax without a pattern the path is known beforehand,
and a source of many rows is laid out once for all steps. All other steps are left to the layer
itself. The function stays the same.
"""

from typing import cast, final

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention import FULL, GroupedQueryHeads, KeyValues
from regard.attention.batched_source import BatchedSource
from regard.attention.engine.kernels import softmax_attention
from regard.attention.folded_source import Folded
from regard.attention.links import AnyMask
from regard.attention.masks import is_full
from regard.layers import DecoderCache, DecoderLayer
from regard.layers.decoder_layer import WritingLayer
from regard.layers.encoder_layer import Attend

BATCHED = 64
"""A source is laid out for batched products from so many numbers of queries a sentence and head on:
below, torch's kernel over single heads is faster."""
MANY, SMALL = 32, 256
"""Sums are faster than kernels from so many rows on, up to so many numbers of keys a head."""
FOLDED_GAIN = 2
"""A source is folded if this many times smaller than the weights that it replaces."""


@final
class QuickLayer(WritingLayer):
    """A decoder layer of plain heads, with stacked weights and fewer calls for each step."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__()
        self.layer = layer
        scale, source_scale = plain_scale(layer.attention), plain_scale(layer.cross_attention)
        assert scale is not None and source_scale is not None
        self._scale, self._source_scale = scale, source_scale

    def forward(
        self,
        x: Float[Tensor, "r n m"],
        source: Float[Tensor, "b k ms"],
        mask: AnyMask = FULL,
        source_mask: AnyMask = FULL,
    ) -> Float[Tensor, "r n m"]:
        """All positions at once, by the layer's own code."""
        return self.layer(x, source, mask, source_mask)

    def start(self, source: Float[Tensor, "b k ms"]) -> DecoderCache:
        """Project the source once, before the first step."""
        return self.layer.start(source)

    def read(self, y: Tensor, attend: Attend) -> Tensor:
        """The part after the self-attention, by the layer's own code."""
        return self.layer.read(y, attend)

    def step(
        self,
        x: Float[Tensor, "r n m"],
        cache: DecoderCache,
        mask: AnyMask = FULL,
        source_mask: AnyMask = FULL,
    ) -> tuple[Float[Tensor, "r n m"], DecoderCache]:
        """The next positions, and the longer cache."""
        seen = None if isinstance(source_mask, Tensor) else source_mask.as_kernel()
        if x.shape[1] != 1 or not is_full(mask) or seen is None or seen.is_causal:
            return self.layer.step(x, cache, mask, source_mask)
        layer, kept = self.layer, list[KeyValues]()
        folded, batched = cache.folded, cache.batched
        if seen.valid is None and folded is None:
            folded = self._folded(cache.source)
        width = layer.cross_attention.dims.d_head
        if folded is None and batched is None and len(x) * width >= BATCHED * len(cache.source.key):
            batched = BatchedSource.of(
                layer.cross_attention, cache.source, seen.valid, self._source_scale
            )

        def own_past(z: Tensor) -> Tensor:
            # a layer whose heads see all of the past keeps all of it
            context, past = self._attend_with_cache(z, cast(KeyValues | None, cache.past))
            kept.append(past)
            return context

        def the_source(z: Tensor) -> Tensor:
            if folded is not None:
                return folded.attend(z)
            return self._look_at(z, cache.source, seen.valid, batched)

        y = layer.around_attention(x, own_past)
        z = layer.around_cross_attention(y, the_source)
        out = layer.around_feed_forward(z, layer.feed_forward)
        return out, DecoderCache(kept[0], cache.source, folded, batched)

    def _attend_with_cache(
        self, z: Float[Tensor, "r 1 m"], past: KeyValues | None
    ) -> tuple[Float[Tensor, "r 1 m"], KeyValues]:
        """The self-attention of a new position, and the longer past."""
        heads = self.layer.attention
        assert heads.W_QKV is not None
        rows, n_heads, width = z.shape[0], heads.dims.n_heads, heads.dims.d_head
        whole, d_groups = heads.W_QKV(z), heads.n_groups * width
        query = whole.narrow(2, 0, n_heads * width).view(rows, n_heads, 1, width)
        both = whole.narrow(2, n_heads * width, 2 * d_groups).view(rows, 2, heads.n_groups, width)
        if past is None:
            memory = KeyValues(both[:, 0, :, None], both[:, 1, :, None])
        else:
            memory = past.append_one(both)
        # a product of one query with few keys is too small to be worth a kernel's call
        is_small = rows >= MANY and memory.length * width <= SMALL
        attend = _attend_by_sums if is_small else _attend
        return heads.W_O(attend(heads, query, memory, self._scale).reshape(rows, 1, -1)), memory

    def _look_at(
        self,
        z: Float[Tensor, "r 1 m"],
        source: KeyValues,
        valid: Bool[Tensor, "b k"] | None,
        batched: BatchedSource | None,
    ) -> Float[Tensor, "r 1 m"]:
        """The cross-attention of each row; the rows of a sentence attend together."""
        heads = self.layer.cross_attention
        queries = heads.W_Q(z.view(source.key.shape[0], -1, z.shape[2]))
        queries = queries.unflatten(2, (heads.dims.n_heads, -1)).transpose(1, 2)
        if batched is None:
            context = _attend(heads, queries, source, self._source_scale, valid)
        else:
            context = batched.attend(queries)
        return heads.W_O(context.transpose(1, 2).reshape(z.shape[0], 1, -1))

    def _folded(self, source: KeyValues) -> Folded | None:
        """The folded source, if it is smaller than the weights that it replaces."""
        heads = self.layer.cross_attention
        columns = source.key.shape[0] * source.length * heads.dims.n_heads
        if columns * FOLDED_GAIN > heads.dims.d_model:
            return None
        return Folded.of(heads, source, self._source_scale)


def can_be_quick(layer: DecoderLayer) -> bool:
    """Whether both attentions of a layer are plain dot products and softmax."""
    return all(plain_scale(heads) is not None for heads in (layer.attention, layer.cross_attention))


def plain_scale(heads: GroupedQueryHeads) -> float | None:
    """The scale of dot products before the softmax; None if the chain has any other part."""
    chain, nothing = heads.chain, heads.W_Q.weight.new_zeros(1, 1, 1, heads.dims.d_head)
    has_more = (
        heads.rotary is not None
        or heads.query_norm is not None
        or heads.key_norm is not None
        or not chain.relation.is_zero
        or not is_full(chain.pattern)
        or chain.memory is not None
        or chain.path is not None
    )
    dot, softmax = chain.score.as_dot(nothing, nothing), chain.select.as_softmax()
    if has_more or dot is None or softmax is None:
        return None
    # `as_dot` gives another query here if the score multiplies it by weights
    return softmax * dot.scale if dot.query is nothing and dot.key is nothing else None


def _attend_by_sums(
    heads: GroupedQueryHeads,
    query: Float[Tensor, "r h 1 d"],
    memory: KeyValues,
    scale: float,
) -> Float[Tensor, "r h d"]:
    """`_attend` for one query a row, as sums: keys come first, as caches store them."""
    key, value = (each.permute(2, 0, 1, 3) for each in heads.by_head(memory))
    scores = (key * (query.squeeze(2) * scale)).sum(-1, keepdim=True)
    return (value * scores.softmax(0)).sum(0)


def _attend(
    heads: GroupedQueryHeads,
    query: Float[Tensor, "b h q d"],
    memory: KeyValues,
    scale: float,
    valid: Bool[Tensor, "b k"] | None = None,
) -> Float[Tensor, "b h q d"]:
    key, value = heads.by_head(memory)
    return softmax_attention(query, key, value, None, valid=valid, is_causal=False, scale=scale)[0]
