"""torch's own multi-head attention, seen from outside: its weights from its inputs.

    with foreign(model) as maps: model(x)

Nothing is attached to the modules, which would switch torch's fast path off, and nothing is
computed but a copy of what goes in: queries, keys and row numbers are made at the first look.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
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
from regard.inspecting.lazy_map import Later
from regard.places import Places

BLOCK = 1 << 22
"""About how many scores are made at a time."""


@dataclass(frozen=True)
class Inputs:
    """What one call of a `MultiheadAttention` was given, batch first."""

    query: Float[Tensor, "b q m"]
    key: Float[Tensor, "b k mk"]
    value: Float[Tensor, "b k mv"]
    padded: Tensor | None
    """True, or minus infinity, where a key does not exist."""
    masked: Tensor | None
    """True, or minus infinity, where a query may not look."""


@final
@dataclass(frozen=True)
class Heard:
    """One attention that ran, and what it was given."""

    part: nn.MultiheadAttention
    inputs: Inputs
    is_self: bool
    """Whether a sequence looked at itself."""

    def map(self, example: int) -> Later:
        """Its map, to be made at the first look.

        Args:
            example: which sentence of the batch.
        """
        part, inputs = self.part, self.inputs
        n_more = (part.bias_k is not None) + part.add_zero_attn
        n_keys = inputs.key.shape[1] + n_more
        shape = (len(inputs.query), part.num_heads, inputs.query.shape[1], n_keys)
        return Later(partial(multihead_map, part, inputs), shape, example)


@final
class GivenBias(Relation):
    """Numbers that somebody adds to the scores, such as a float mask's."""

    reads_query = False

    def __init__(self, matrix: Float[Tensor, "*b n k"]) -> None:
        self.matrix = matrix

    def to_scores(self, query: Float[Tensor, "*b q d"], places: Places) -> Float[Tensor, "*m q k"]:
        """The matrix at these places."""
        return self.matrix[..., places.query, places.key]

    def as_bias(self, places: Places) -> Float[Tensor, "*b q k"]:
        """It is one."""
        return self.matrix[..., places.query, places.key]


@contextmanager
def foreign(model: nn.Module) -> Iterator[dict[str, Heard]]:
    """Collect every `nn.MultiheadAttention` that runs inside the block, by its place in the model.

    One that runs several times leaves its last call.
    """
    heard: dict[str, Heard] = {}
    parts = {
        id(part): (name, LISTENING[type(part)])
        for name, part in model.named_modules()
        if type(part) in LISTENING
    }
    thread = threading.get_ident()

    def listen(part: nn.Module, args: Any, named: Mapping[str, Any], _: Any) -> None:
        if id(part) in parts and threading.get_ident() == thread:
            name, hear = parts[id(part)]
            hear(part, name, args, named, heard)

    handle = register_module_forward_hook(listen, with_kwargs=True) if parts else None
    try:
        yield heard
    finally:
        if handle is not None:
            handle.remove()
    for name, one in heard.items():
        # what is learned later must not change what was seen
        heard[name] = replace(one, part=deepcopy(one.part))


def multihead_map(part: nn.MultiheadAttention, inputs: Inputs) -> AttentionMap:
    """The map of one call, rebuilt from the module's own projections."""
    with torch.no_grad():
        query, key, value = _projected(part, inputs)
        n_more = key.shape[-2] - inputs.key.shape[1]
        mask, relation = _mask(inputs, part.num_heads, n_more)
        places = Places.between(query.shape[-2], key.shape[-2], device=query.device)
        lse = _row_numbers(query, key, mask, relation, places)
    return AttentionMap(
        query=query,
        key=key,
        rows=SoftRows(lse),
        places=places,
        mask=mask,
        score=SCALED_DOT,
        relation=relation,
        select=SOFT,
        value=value,
        output=part.out_proj.weight.T.unflatten(0, (part.num_heads, -1)),
    )


def _hear_attention(
    part: nn.MultiheadAttention,
    name: str,
    args: Any,
    named: Mapping[str, Any],
    heard: dict[str, Heard],
) -> None:
    takes = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    call = {**dict(zip(takes, args, strict=False)), **named}
    sides = [call[side] for side in ("query", "key", "value")]
    is_self = sides[0] is sides[1] or sides[0].data_ptr() == sides[1].data_ptr()
    copies = {id(side): _batched(side, is_batch_first=part.batch_first) for side in sides}
    padded, masked = (_kept(call.get(name)) for name in ("key_padding_mask", "attn_mask"))
    if padded is not None and padded.dim() == 1:
        padded = padded[None]
    query, key, value = (copies[id(side)] for side in sides)
    inputs = Inputs(query, key, value, padded, masked)
    heard.pop(name, None)
    heard[name] = Heard(part, inputs, is_self)


def _hear_layer(
    part: nn.TransformerEncoderLayer,
    name: str,
    args: Any,
    named: Mapping[str, Any],
    heard: dict[str, Heard],
) -> None:
    """A layer whose fast path ran never called its attention: its input says the same."""
    call = {**dict(zip(("src", "src_mask", "src_key_padding_mask"), args, strict=False)), **named}
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
    inputs = Inputs(x, x, x, padded, _kept(call.get("src_mask")))
    heard[inside] = Heard(part.self_attn, inputs, is_self=True)


LISTENING: Mapping[type[nn.Module], Callable[..., None]] = {
    nn.MultiheadAttention: _hear_attention,
    nn.TransformerEncoderLayer: _hear_layer,
}
"""The modules of torch that attend, and how each is heard."""


def _batched(side: Tensor, *, is_batch_first: bool) -> Float[Tensor, "b n m"]:
    """A copy of its own: a residual may be added in place a moment later."""
    copy = side.detach().clone()
    if copy.dim() == 2:
        return copy[None]
    return copy if is_batch_first else copy.transpose(0, 1)


def _kept(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.detach()


def _projected(part: nn.MultiheadAttention, inputs: Inputs) -> tuple[Tensor, ...]:
    """Queries, keys and values, head by head."""
    weights = (
        part.in_proj_weight.chunk(3)
        if part.in_proj_weight is not None
        else (part.q_proj_weight, part.k_proj_weight, part.v_proj_weight)
    )
    biases = part.in_proj_bias.chunk(3) if part.in_proj_bias is not None else (None,) * 3
    sides = (inputs.query, inputs.key, inputs.value)
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


def _mask(inputs: Inputs, n_heads: int, n_more: int) -> tuple[Pattern, Relation]:
    """Who may see whom, and what is added; keys that the module itself adds are open to all."""
    sides: list[Tensor] = []
    if inputs.masked is not None:
        masked = inputs.masked
        sides.append(masked.unflatten(0, (-1, n_heads)) if masked.dim() == 3 else masked)
    if inputs.padded is not None:
        sides.append(inputs.padded[:, None, None, :])
    if not sides:
        return FULL, NO_RELATION
    visible, bias = None, None
    for side in sides:
        open_, added = _read(pad(side, (0, n_more)))
        visible = open_ if visible is None else visible & open_
        if added is not None:
            bias = added if bias is None else bias + added
    assert visible is not None
    n_queries = inputs.query.shape[1]
    shown = given(visible.expand(*visible.shape[:-2], n_queries, visible.shape[-1]))
    if bias is None:
        return shown, NO_RELATION
    return shown, GivenBias(bias.expand(*bias.shape[:-2], n_queries, bias.shape[-1]))


def _read(mask: Tensor) -> tuple[Bool[Tensor, "..."], Float[Tensor, "..."] | None]:
    """A mask in torch's two spellings: what is open, and what is added there."""
    if mask.dtype == torch.bool:
        return ~mask, None
    is_open = ~torch.isneginf(mask)
    added = torch.where(is_open, mask, 0.0)
    return is_open, added if bool(added.any()) else None


def _row_numbers(
    query: Tensor, key: Tensor, mask: Pattern, relation: Relation, places: Places
) -> Float[Tensor, "b h q 1"]:
    per_row = query.shape[0] * query.shape[1] * key.shape[-2]
    high, numbers = max(1, BLOCK // max(per_row, 1)), []
    for first in range(0, query.shape[-2], high):
        some = slice(first, first + high)
        here, part = places.tile(some, slice(None)), query[..., some, :]
        scores = SCALED_DOT(part, key) + relation.to_scores(part, here)
        numbers.append(SOFT.summarise(scores, mask.visible(here), part, here).lse)
    return torch.cat(numbers, -2)
