"""Relations: what distance adds to attention, in CTranslate2's three ways.

    vectors by distance   one table for all heads (Shaw's)
    numbers by bucket     one table for all layers of a stack (T5's); a bucket for each distance
    slopes                those of ALiBi, in a decoder without an encoder

A stack with one of these, or with rotary positions, adds no positions to its token vectors.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.relations.linear_bias import slopes
from regard.errors import NotPortable
from regard.models.portable import PortableAttention, PortableStack

SLOPES_AGREE = 1e-6


def check_positions(stack: PortableStack, *, is_alone: bool) -> None:
    """Refuse positions and relations that CTranslate2 cannot have together, or not as they are.

    `is_alone` is a decoder without an encoder.
    """
    own = [layer.attention for layer in stack.layers]
    if any(layer.cross is not None and layer.cross.is_rotary for layer in stack.layers):
        raise NotPortable(
            "rotary positions turn queries and keys of attention to the source too, but in "
            "CTranslate2 those of self-attention alone; take model.positions = 'sinusoidal'"
        )
    if stack.positions is not None and any(map(_has_positions, own)):
        raise NotPortable(
            "CTranslate2 adds no positions to token vectors where attention knows distances; take "
            "model.positions = 'none', or leave model.relation out"
        )
    if len({(one.is_rotary, has_vectors(one), has_bias(one)) for one in own}) > 1:
        raise NotPortable("all layers must know distances in the same way")
    for one in own:
        if not _is_shared(one.keys_by_distance, one.values_by_distance):
            raise NotPortable(
                "every head has vectors of its own for a distance, and in CTranslate2 all heads "
                "share them; take model.relation = { name = 'shaw', is_shared = true }"
            )
    if is_alone and has_bias(own[0]) and not all(map(is_alibi, own)):
        raise NotPortable(
            "CTranslate2 has no biases by distance in a language model but ALiBi's; take "
            "model.relation = 'linear_bias'"
        )
    if not all(_same_bias(own[0], one) for one in own[1:]):
        raise NotPortable(
            "every layer has biases of its own for a distance, and in CTranslate2 all layers share "
            "them; take model.relation = 'linear_bias', or one layer"
        )


def has_vectors(one: PortableAttention) -> bool:
    """Whether there is a vector for each distance."""
    return one.keys_by_distance is not None


def has_bias(one: PortableAttention) -> bool:
    """Whether there is a number for each distance."""
    return one.bias_by_distance is not None


def is_alibi(one: PortableAttention) -> bool:
    """Whether the bias is ALiBi's for this number of heads, which CTranslate2 computes."""
    if one.slope is None or one.bias_by_distance is None:
        return False
    expected = -torch.tensor(slopes(one.n_heads))
    reach = one.bias_by_distance.shape[-1] // 2
    line = expected[:, None] * torch.arange(-reach, reach + 1).abs()
    found = torch.cat([one.slope[:, None], one.bias_by_distance], 1).cpu()
    wanted = torch.cat([expected[:, None], line], 1)
    return torch.allclose(found, wanted, rtol=0, atol=SLOPES_AGREE)


def set_relation(spec: Any, one: PortableAttention, *, n_positions: int, is_causal: bool) -> None:
    """Fill the variables of a self-attention by distance, if it has any."""
    if one.keys_by_distance is not None:
        keys, values = one.keys_by_distance[0], one.values_by_distance
        spec.relative_position_keys = own_copy(keys)
        spec.relative_position_values = own_copy(
            torch.zeros_like(keys) if values is None else values[0]
        )
    elif one.bias_by_distance is not None:
        table, reach = _buckets(one, n_positions, is_causal=is_causal)
        spec.relative_attention_bias = own_copy(table)
        spec.relative_attention_max_distance = np.int32(2 * reach)


def _buckets(
    one: PortableAttention, n_positions: int, *, is_causal: bool
) -> tuple[Float[Tensor, "buckets h"], int]:
    """T5's table in which each distance below `reach` has its own bucket, and the rest share one.

    Half of T5's buckets of a direction hold one distance each; the other half, for logarithms of
    far distances, all hold the last number here.
    """
    assert one.bias_by_distance is not None
    middle = one.bias_by_distance.shape[-1] // 2
    reach = middle + 1 if one.slope is None else max(n_positions, middle + 1)
    sides = [_direction(one, side, reach) for side in ((-1,) if is_causal else (-1, 1))]
    return torch.cat([torch.cat([near, near[-1:].expand(reach, -1)]) for near in sides]), reach


def _direction(one: PortableAttention, side: int, reach: int) -> Float[Tensor, "reach h"]:
    """The numbers at distances 0, 1, … in one direction."""
    assert one.bias_by_distance is not None
    table = one.bias_by_distance
    middle = table.shape[-1] // 2
    distance = torch.arange(reach, device=table.device)
    near = table[:, middle + side * distance.clamp(max=middle)]
    if one.slope is not None:
        near = near + one.slope[:, None] * (distance - middle).clamp(min=0)
    return near.mT


def _has_positions(one: PortableAttention) -> bool:
    return one.is_rotary or has_vectors(one) or has_bias(one)


def _is_shared(*tables: Tensor | None) -> bool:
    """Whether all heads have the same table."""
    return all(table is None or bool((table == table[:1]).all()) for table in tables)


def _same_bias(one: PortableAttention, other: PortableAttention) -> bool:
    pairs = ((one.bias_by_distance, other.bias_by_distance), (one.slope, other.slope))
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in pairs
    )


def own_copy(tensor: Tensor) -> Tensor:
    """A copy on the CPU: quantising changes what it is given."""
    return tensor.detach().float().cpu().clone(memory_format=torch.contiguous_format)
