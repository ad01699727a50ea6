"""Functions: a model that reads a source, as two functions of tensors for runtimes of algebra.

    read(source)                          →  valid, keys and values of the source by layer
    step(token, valid, those, own past)   →  logits, the longer past

Every chain runs dense, by the operations of its definition: whatever its links, there is nothing in
the graph but algebra. The past may be empty, and each row of the step has a row of the source.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Chain, GroupedQueryHeads, KeyValues
from regard.attention.caches import BoundedPattern
from regard.errors import NotPortable
from regard.layers import DecoderCache
from regard.layers.decoder_layer import WritingLayer
from regard.models.model import Model
from regard.models.transformer import Transformer, TransformerState

DENSE = "dense"


@final
class ReadFunction(nn.Module):
    """Reads sources; padding is at their ends."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Int[Tensor, "b s"]) -> list[Tensor]:
        """Which tokens exist, then keys and values of each decoder layer."""
        state = self.model.read(source, is_full=False)
        assert state.valid is not None
        kept = [part for cache in state.caches for part in cache.source[:2]]
        return [state.valid, *kept]


@final
class StepFunction(nn.Module):
    """Writes one token of each row."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Int[Tensor, "b 1"],
        valid: Bool[Tensor, "b s"],
        sources: Sequence[Float[Tensor, "b h s d"]],
        pasts: Sequence[Float[Tensor, "b h t d"]],
    ) -> list[Tensor]:
        """Logits of the next token, then the longer past of each decoder layer."""
        pairs = zip(_pairs(pasts), _pairs(sources), strict=True)
        caches = tuple(DecoderCache(own, source) for own, source in pairs)
        state = TransformerState(valid, caches, pasts[0].shape[2])
        logits, after = self.model.step(state, tokens)
        longer = cast(Iterable[KeyValues], (cache.past for cache in after.caches))
        kept = [part for past in longer for part in past[:2]]
        return [logits[:, -1], *kept]


class TensorFunctions(NamedTuple):
    """Both functions, and the shape of the past."""

    read: ReadFunction
    step: StepFunction
    n_layers: int
    n_heads: int
    d_head: int


def tensor_functions(model: Model) -> TensorFunctions:
    """The functions of a copy of a model, or `NotPortable` with the reason."""
    if not isinstance(model, Transformer):
        raise NotPortable(
            f"a model of kind {type(model).__name__} is not written as a graph, which only those "
            "with an encoder and a decoder of layers are; take model.kind = 'transformer'"
        )
    if model.counts_from_the_end:
        raise NotPortable(
            "what an encoder layer sees depends on where the text ends, which a graph does not "
            'know; take model.encoder_attends = ["full"], or sliding_window'
        )
    _check_decoder(model)
    ours = copy.deepcopy(model).cpu().eval()
    chains = [part for part in ours.modules() if isinstance(part, Chain)]
    for chain in chains:
        chain.path = DENSE
    heads = next(part for part in ours.decoder.modules() if isinstance(part, GroupedQueryHeads))
    sizes = (len(ours.decoder), heads.n_groups, heads.dims.d_head)
    return TensorFunctions(ReadFunction(ours), StepFunction(ours), *sizes)


def _check_decoder(model: Transformer) -> None:
    """Refuse decoders whose caches are not keys and values of one shape for all positions."""
    heads = [part for part in model.decoder.modules() if isinstance(part, GroupedQueryHeads)]
    if len({(one.n_groups, one.dims.d_head) for one in heads}) > 1:
        raise NotPortable(
            "the decoder's attentions have different heads, and a graph has one shape of keys and "
            "values; leave n_heads and n_groups out of model.decoder and model.cross"
        )
    for layer in cast(Iterable[WritingLayer], model.decoder):
        chain = layer.attention.chain
        if chain.memory is not None or isinstance(chain.pattern, BoundedPattern):
            raise NotPortable(
                "a decoder that forgets old positions has a cache whose size a graph does not "
                'know; take model.decoder.attends = ["full"]'
            )


def _pairs(tensors: Sequence[Tensor]) -> list[KeyValues]:
    return [KeyValues(tensors[i], tensors[i + 1]) for i in range(0, len(tensors), 2)]
