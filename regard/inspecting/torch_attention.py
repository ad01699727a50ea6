"""Torch attention: the weights of torch's own `nn.MultiheadAttention`, rebuilt from its inputs.

    with torch_attention(model) as maps: model(x)

No hook is attached to the modules, which would switch torch's fast path off. During the pass the
inputs are only copied; queries, keys and row numbers are computed when a map is first read.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.nn.modules.module import register_module_forward_hook

from regard.attention import FULL, AttentionMap
from regard.attention.attend import SCALED_DOT, SOFT
from regard.attention.links import NO_RELATION, Pattern, Relation, SoftRows
from regard.attention.masks import given
from regard.inspecting.lazy_map import LazyMap
from regard.places import Places

BLOCK_SCORES = 1 << 22
"""About how many scores are made at a time."""


@final
@dataclass(frozen=True)
class AttentionCall:
    """One call of a `MultiheadAttention`, and what it was given, batch first."""

    part: nn.MultiheadAttention
    query: Float[Tensor, "b q m"]
    key: Float[Tensor, "b k mk"]
    value: Float[Tensor, "b k mv"]
    padded: Tensor | None
    """True, or minus infinity, where a key does not exist."""
    masked: Tensor | None
    """True, or minus infinity, where a query may not look."""
    is_self: bool = True
    """Whether a sequence looked at itself."""

    def map(self, example: int) -> LazyMap:
        """The map of one sentence of the batch, computed when it is first read."""
        n_more = (self.part.bias_k is not None) + self.part.add_zero_attn
        n_keys = self.key.shape[1] + n_more
        shape = (len(self.query), self.part.num_heads, self.query.shape[1], n_keys)
        return LazyMap(partial(_rebuilt, self), shape, example)


@final
class GivenBias(Relation):
    """Numbers that a caller adds to the scores, such as a float mask's."""

    reads_query = False

    def __init__(self, matrix: Float[Tensor, "*b n k"]) -> None:
        self.matrix = matrix

    def as_bias(self, places: Places) -> Float[Tensor, "*b q k"]:
        """The matrix at these places."""
        return self.matrix[..., places.query, places.key]


@contextmanager
def torch_attention(model: nn.Module) -> Iterator[dict[str, AttentionCall]]:
    """Collect every `nn.MultiheadAttention` that runs inside the block, by its place in the model.

    Of a module that runs several times the last call is kept.
    """
    heard: dict[str, AttentionCall] = {}
    parts = {
        id(part): (name, LISTENING[type(part)])
        for name, part in model.named_modules()
        if type(part) in LISTENING
    }
    thread = threading.get_ident()

    def listen(part: nn.Module, args: Any, named: Mapping[str, Any], _: Any) -> None:
        if id(part) in parts and threading.get_ident() == thread:
            name, (hear, takes) = parts[id(part)]
            hear(part, {**dict(zip(takes, args, strict=False)), **named}, name, heard)

    handle = register_module_forward_hook(listen, with_kwargs=True) if parts else None
    try:
        yield heard
    finally:
        if handle is not None:
            handle.remove()
    for name, one in heard.items():
        # a copy, so that further training does not change what was captured
        heard[name] = replace(one, part=deepcopy(one.part))


def _rebuilt(heard: AttentionCall) -> AttentionMap:
    """The map of one call, from the module's own projections."""
    part = heard.part
    with torch.no_grad():
        query, key, value = _projected(heard)
        mask, relation = _mask(heard, n_more=key.shape[-2] - heard.key.shape[1])
        seen = soft_map(query, key, value, mask, relation)
    output = part.out_proj.weight.T.unflatten(0, (part.num_heads, -1))
    return replace(seen, output=output)


@torch.no_grad()
def soft_map(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    value: Float[Tensor, "b h k dv"],
    mask: Pattern,
    relation: Relation,
) -> AttentionMap:
    """The map of a softmax of scaled dot products, whose row numbers are computed in blocks."""
    places = Places.between(query.shape[-2], key.shape[-2], device=query.device)
    return AttentionMap(
        query=query,
        key=key,
        rows=SoftRows(_row_numbers(query, key, mask, relation, places)),
        places=places,
        mask=mask,
        score=SCALED_DOT,
        relation=relation,
        select=SOFT,
        value=value,
    )


def _hear_attention(
    part: nn.MultiheadAttention, call: Mapping[str, Any], name: str, heard: dict[str, AttentionCall]
) -> None:
    sides = [call[side] for side in ("query", "key", "value")]
    is_self = sides[0] is sides[1] or sides[0].data_ptr() == sides[1].data_ptr()
    copies = {id(side): _batched(side, is_batch_first=part.batch_first) for side in sides}
    padded, masked = (_kept(call.get(name)) for name in ("key_padding_mask", "attn_mask"))
    if padded is not None and padded.dim() == 1:
        padded = padded[None]
    query, key, value = (copies[id(side)] for side in sides)
    heard.pop(name, None)
    heard[name] = AttentionCall(part, query, key, value, padded, masked, is_self)


def _hear_layer(
    part: nn.TransformerEncoderLayer,
    call: Mapping[str, Any],
    name: str,
    heard: dict[str, AttentionCall],
) -> None:
    """Collect a layer whose fast path skips the call of its attention: its input suffices."""
    inside, source = f"{name}.self_attn".lstrip("."), call["src"]
    if inside in heard:
        return
    padded = _kept(call.get("src_key_padding_mask"))
    if source.is_nested:
        lengths = torch.tensor([len(one) for one in source.unbind()], device=source.device)
        source = source.to_padded_tensor(0.0)
        padded = torch.arange(source.shape[1], device=source.device) >= lengths[:, None]
    with torch.no_grad():
        x = _batched(source, is_batch_first=part.self_attn.batch_first)
        x = part.norm1(x) if part.norm_first else x
    heard[inside] = AttentionCall(part.self_attn, x, x, x, padded, _kept(call.get("src_mask")))


LISTENING: Mapping[type[nn.Module], tuple[Callable[..., None], tuple[str, ...]]] = {
    nn.MultiheadAttention: (
        _hear_attention,
        ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"),
    ),
    nn.TransformerEncoderLayer: (_hear_layer, ("src", "src_mask", "src_key_padding_mask")),
}
"""torch's modules with attention: what collects a call of each, and its arguments in order."""


def _batched(side: Tensor, *, is_batch_first: bool) -> Float[Tensor, "b n m"]:
    """A copy, batch first: the original may change when a residual is added in place."""
    copy = side.detach().clone()
    if copy.dim() == 2:
        return copy[None]
    return copy if is_batch_first else copy.transpose(0, 1)


def _kept(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.detach()


def _projected(heard: AttentionCall) -> tuple[Tensor, ...]:
    """Queries, keys and values, head by head."""
    part = heard.part
    weights = (
        part.in_proj_weight.chunk(3)
        if part.in_proj_weight is not None
        else (part.q_proj_weight, part.k_proj_weight, part.v_proj_weight)
    )
    biases = part.in_proj_bias.chunk(3) if part.in_proj_bias is not None else (None,) * 3
    sides = (heard.query, heard.key, heard.value)
    query, key, value = (
        linear(side, weight, bias)
        for side, weight, bias in zip(sides, weights, biases, strict=True)
    )
    if part.bias_k is not None and part.bias_v is not None:
        n = len(key)
        key = torch.cat([key, part.bias_k.expand(n, 1, -1)], 1)
        value = torch.cat([value, part.bias_v.expand(n, 1, -1)], 1)
    if part.add_zero_attn:
        key, value = pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1))
    return tuple(x.unflatten(-1, (part.num_heads, -1)).transpose(1, 2) for x in (query, key, value))


def _mask(heard: AttentionCall, n_more: int) -> tuple[Pattern, Relation]:
    """The mask, and the added bias; every query may see the keys that the module itself adds."""
    sides: list[Tensor] = []
    if heard.masked is not None:
        has_heads = heard.masked.dim() == 3
        by_head = (-1, heard.part.num_heads)
        sides.append(heard.masked.unflatten(0, by_head) if has_heads else heard.masked)
    if heard.padded is not None:
        sides.append(heard.padded[:, None, None, :])
    if not sides:
        return FULL, NO_RELATION
    visible, added = zip(*(_read(pad(side, (0, n_more))) for side in sides), strict=True)
    n_queries = heard.query.shape[1]

    def all_rows(joined: Tensor) -> Tensor:
        return joined.expand(*joined.shape[:-2], n_queries, joined.shape[-1])

    shown = given(all_rows(reduce(torch.logical_and, visible)))
    biases = [one for one in added if one is not None]
    return shown, GivenBias(all_rows(reduce(torch.add, biases))) if biases else NO_RELATION


def _read(mask: Tensor) -> tuple[Bool[Tensor, "..."], Float[Tensor, "..."] | None]:
    """The visible pairs and the added bias of a mask, boolean or float as torch allows."""
    if mask.dtype == torch.bool:
        return ~mask, None
    is_open = ~torch.isneginf(mask)
    added = torch.where(is_open, mask, 0.0)
    return is_open, added if bool(added.any()) else None


def _row_numbers(
    query: Tensor, key: Tensor, mask: Pattern, relation: Relation, places: Places
) -> Float[Tensor, "b h q 1"]:
    per_row = query.shape[0] * query.shape[1] * key.shape[-2]
    high, numbers = max(1, BLOCK_SCORES // max(per_row, 1)), []
    for first in range(0, query.shape[-2], high):
        some = slice(first, first + high)
        here, part = places.tile(some, slice(None)), query[..., some, :]
        scores = SCALED_DOT(part, key) + relation.to_scores(part, here)
        numbers.append(SOFT.summarise(scores, mask.visible(here), part, here).lse)
    return torch.cat(numbers, -2)
