"""Sparse operator: the sparse path as one operator of a compiler's graph, for all lengths.

A graph holds tensors, numbers and texts, and no patterns. So the operator is told the names and
settings of patterns, builds them anew, and runs the sparse path as it runs outside a graph.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.attention.attend import SOFT
from regard.attention.engine.case import Case
from regard.attention.engine.kernels import like_rows
from regard.attention.engine.sparse import (
    attend_in_chunks,
    best_cut,
    differentiate_in_chunks,
)
from regard.attention.engine.tiled_band import fits_tiles
from regard.attention.engine.tiles import Tiling
from regard.attention.link_tables import JoinedTables
from regard.attention.links import NO_RELATION, Pattern, keys_that_exist, wide
from regard.attention.masks import Padding, all_of, split_padding
from regard.attention.memories.memory_compressed import CountedSlots
from regard.attention.scores.dot import DotScore
from regard.attention.tables import PATTERNS
from regard.choices import Choice
from regard.dims import Dims
from regard.places import Counted, Places

DOT, ANY_DIMS = DotScore(), Dims(d_model=1, n_heads=1)
"""The score of projected queries and keys, and the dims of patterns, which read none."""

KNOWN: Mapping[str, type[Pattern]] = JoinedTables(PATTERNS, {"counted_slots": CountedSlots})
"""What texts can name: the table of patterns, and the slots of a causal memory."""

PATTERNS_KEPT = 256
"""How many patterns are kept, each with the tiles of its last lengths."""


def attend_by_operator(
    query: Tensor, key: Tensor, value: Tensor, mask: Pattern, places: Places, scale: float
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp, differentiable in query, key and value."""
    parts, valid = split_padding(mask)
    texts = [part.as_text() for part in parts]
    valid = None if valid is None else keys_that_exist(valid, key.shape[-2])
    return torch.ops.regard.sparse(
        query, key, value, valid, texts, places.past, places.length, scale
    )


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    patterns: Sequence[str],
    past: int,
    length: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    case = _case(query, key, value, valid, patterns, past, length)
    if fits_tiles(query, key, value):
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.sparse_kernel import attend_in_tiles

        return attend_in_tiles(query, key, value, _tiling(case), scale)
    return attend_in_chunks(query, key, value, best_cut(case), case, scale)


def _differentiate(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    valid: Tensor | None,
    patterns: Sequence[str],
    past: int,
    length: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    case = _case(query, key, value, valid, patterns, past, length)
    tensors = (grad, query, key, value, out, lse)
    if fits_tiles(query, key, value):
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.sparse_kernel import differentiate_in_tiles

        return differentiate_in_tiles(*tensors, _tiling(case), scale)
    return differentiate_in_chunks(*tensors, best_cut(case), case, scale)


def _results(query: Tensor, key: Tensor, value: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    """Empty tensors for the results of `_attend`."""
    lse = wide(query[..., 0]).new_empty(query.shape[:-1])
    if fits_tiles(query, key, value):
        return like_rows(query, query.shape[-2]), lse
    return query.new_empty(*query.shape[:-1], value.shape[-1]), lse


def _gradients(_: Tensor, query: Tensor, key: Tensor, value: Tensor, *__: object) -> Any:
    """Empty tensors for the results of `_differentiate`."""
    if fits_tiles(query, key, value):
        return tuple(like_rows(query, x.shape[-2]) for x in (query, key, key))
    return tuple(torch.empty_like(x) for x in (query, key, value))


def _case(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    patterns: Sequence[str],
    past: int,
    length: int,
) -> Case:
    parts = [_pattern(text) for text in patterns]
    mask = all_of(*parts) if valid is None else all_of(*parts, Padding(valid))
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    at = (Counted(past, past + n_queries), Counted(0, n_keys), length, past)
    return Case(
        query=query,
        key=key,
        value=value,
        mask=mask,
        places=Places(*at, device=query.device),
        score=DOT,
        relation=NO_RELATION,
        select=SOFT,
        memory=None,
        dropout=0.0,
    )


def _tiling(case: Case) -> Tiling:
    return Tiling.of(case.mask, case.places, case.query.shape[-2], case.key.shape[-2])


@lru_cache(maxsize=PATTERNS_KEPT)
def _pattern(text: str) -> Pattern:
    return Choice.parse(text).build(KNOWN, ANY_DIMS)


_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_LIBRARY.define(
    "sparse(Tensor q, Tensor k, Tensor v, Tensor? valid, str[] patterns, SymInt past,"
    " SymInt length, float scale) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "sparse_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? valid,"
    " str[] patterns, SymInt past, SymInt length, float scale) -> (Tensor, Tensor, Tensor)"
)
for _name, _compute, _room in (
    ("sparse", _attend, _results),
    ("sparse_backward", _differentiate, _gradients),
):
    _LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _room, "Meta")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, valid, *rest = inputs
    ctx.save_for_backward(query, key, value, *output, valid)
    ctx.rest = rest


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    found = torch.ops.regard.sparse_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return (*found, *(None,) * (1 + len(ctx.rest)))


torch.library.register_autograd("regard::sparse", _backward, setup_context=_keep, lib=_LIBRARY)
