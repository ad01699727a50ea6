"""Flex peer: torch's compiled `flex_attention` with the mask and the bias of a chain."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from regard.attention import Chain
from regard.places import Places

MAX_LENGTH = 16_384
"""The longest mask that is written out, pair by pair, for flex to read."""

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def flex_peer(
    chain: Chain, query: Tensor, key: Tensor, value: Tensor, *, is_compiled: bool = True
) -> Callable[[], Tensor] | None:
    """The chain's context by flex, or None where flex cannot express the chain."""
    n, softmax = query.shape[-2], chain.select.as_softmax()
    is_dot = chain.score.as_dot(query, key) is not None
    if chain.memory is not None or not is_dot or softmax is None or n > MAX_LENGTH:
        return None
    vector = None if chain.relation.is_zero else _bias_by_distance(chain, query)
    if vector is None and not chain.relation.is_zero:
        return None
    score_mod = None if vector is None else _adding(vector, n)
    block_mask = _block_mask(chain, query)
    attend = torch.compile(flex_attention) if is_compiled else flex_attention

    def run() -> Tensor:
        dot = chain.score.as_dot(query, key)
        assert dot is not None
        scale = dot.scale * softmax
        return attend(dot.query, dot.key, value, score_mod, block_mask, scale=scale)

    return run


def _bias_by_distance(chain: Chain, query: Tensor) -> Tensor | None:
    """The relation's bias from the farthest key on the left to that on the right."""
    n, device = query.shape[-2], query.device
    far = torch.arange(2 * n - 1, device=device)
    bias = chain.relation.as_bias(Places(far.new_full((1, 1), n - 1), far[None], 2 * n - 1))
    if bias is None or not chain.relation.is_movable:
        return None
    return bias.detach().reshape(-1, 2 * n - 1).expand(query.shape[1], -1).contiguous()


def _adding(vector: Tensor, n: int) -> ScoreMod:
    return lambda score, b, h, q, k: score + vector[h, k - q + n - 1]


def _block_mask(chain: Chain, query: Tensor) -> BlockMask | None:
    """The pattern's visible pairs; None if it hides nothing."""
    n, plain = query.shape[-2], chain.pattern.as_kernel()
    if plain is not None and not plain.is_causal:
        return None
    places = Places.between(n, n, device=query.device)
    visible = chain.pattern.visible(places).expand(n, n).contiguous()
    return create_block_mask(
        lambda b, h, q, k: visible[q, k], None, None, n, n, device=str(query.device)
    )
