"""Tiled band: attention with a banded relation over the visible tiles of a map, by a GPU's kernel.

It is the whole attention of a sparse map, or of a short one. Kernels: related_kernel.py,
related_backward_kernel.py, and related_short_kernel.py for sentences of a single tile.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.attend import Attended
from regard.attention.engine import kernels
from regard.attention.engine.band import RelatedGradients
from regard.attention.engine.case import Case
from regard.attention.engine.tiles import SIDE, Tiling
from regard.attention.links import Pattern, SoftRows, keys_that_exist, wide
from regard.places import Places

MAX_REACH = 128
"""The longest reach that was tried; the kernel's tables grow with it."""


def fits_tiles(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the kernels for tiles take these tensors."""
    dtype, width = query.dtype, query.shape[-1]
    if not query.is_cuda or dtype not in kernels.HALF or width not in kernels.TILE_WIDTHS:
        return False
    if query.shape[0] * query.shape[1] > kernels.MOST_HEADS:
        return False
    return all(x.dtype == dtype and x.shape[-1] == width for x in (key, value))


@dataclass(frozen=True)
class TiledBand:
    """Some tiles of a map, with the position of its first query."""

    tiling: Tiling
    past: int
    scale: float

    @classmethod
    def over(
        cls, mask: Pattern, places: Places, n_queries: int, n_keys: int, scale: float
    ) -> "TiledBand":
        """All tiles of a map."""
        return cls(Tiling.of(mask, places, n_queries, n_keys), places.past or 0, scale)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        by_distance: Float[Tensor, "#b #h #q r"],
        to_values: Float[Tensor, "#h r dv"] | None,
    ) -> tuple[Tensor, Tensor]:
        """Context and log-sum-exp; minus infinity for a row without a key in the tiles."""
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.related_kernel import attend_related

        return attend_related(
            query, key, value, by_distance, to_values, self.tiling, self.past, self.scale
        )

    def gradients(
        self,
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        lse: Tensor,
        by_distance: Float[Tensor, "#b #h #q r"],
        to_values: Float[Tensor, "#h r dv"] | None,
    ) -> RelatedGradients:
        """The gradients, from the context and the log-sum-exp of the whole map."""
        from regard.attention.engine.related_backward_kernel import differentiate_related

        found = differentiate_related(
            grad, query, key, value, out, lse, by_distance, to_values,
            self.tiling, self.past, self.scale,
        )  # fmt: skip
        return RelatedGradients(*found)


def attend_over_tiles(case: Case) -> Attended:
    """The attention of a case whose relation is banded, over all visible tiles of its map."""
    assert case.dot is not None and case.softmax is not None
    banded = case.relation.as_banded(case.query)
    assert banded is not None and case.relation.reach is not None
    n_queries, n_keys, mask = case.query.shape[-2], case.key.shape[-2], case.kernel_mask
    scale, past = case.dot.scale * case.softmax, case.places.past or 0
    inputs = (case.dot.query, case.dot.key, case.value)
    if mask is not None and max(n_queries, n_keys) <= SIDE:
        valid = None if mask.valid is None else keys_that_exist(mask.valid, n_keys)
        sizes = (valid, mask.is_causal, case.relation.reach, past, scale)
        # vectors are added to the keys inside the kernel
        numbers = banded.by_distance
        if numbers is not None and case.softmax != 1:
            numbers = numbers * case.softmax
        context, lse = _InOneTile.apply(sizes, *inputs, numbers, banded.to_keys, banded.to_values)
    else:
        by_distance = banded.numbers(case.query, scale=case.dot.scale, sharpness=case.softmax)
        tiles = TiledBand.over(case.mask, case.places, n_queries, n_keys, scale)
        context, lse = _Related.apply(tiles, *inputs, by_distance, banded.to_values)
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


class _InOneTile(torch.autograd.Function):
    """The attention of sentences that fit into one tile, with the gradients of the relation."""

    @staticmethod
    def forward(ctx: Any, sizes: tuple[Any, ...], *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend; the sizes are keys that exist, causality, reach, keys before, and the scale."""
        # Triton comes with torch only where there is a GPU; the kernel's module registers it
        from regard.attention.engine import related_short_kernel  # noqa: F401

        context, lse = torch.ops.regard.related_tile(*tensors, *sizes)
        lse = lse.masked_fill(lse == -torch.inf, kernels.EMPTY_ROW)
        ctx.save_for_backward(*tensors, context, lse)
        ctx.sizes = sizes
        ctx.mark_non_differentiable(lse)
        return context, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        # under a checkpoint these can be read once
        saved = ctx.saved_tensors
        *found, d_numbers, d_keys, d_values = torch.ops.regard.related_tile_backward(
            grad, *saved, *ctx.sizes
        )
        sums = (
            None if like is None else part.sum_to_size(like.shape).to(like.dtype)
            for like, part in zip(
                saved[3:6], (d_numbers, d_keys.sum(0), d_values.sum(0)), strict=True
            )
        )  # fmt: skip
        return None, *found, *sums


class _Related(torch.autograd.Function):
    """The attention over all tiles of a map, with the gradients of the relation."""

    @staticmethod
    def forward(
        ctx: Any,
        tiles: TiledBand,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        by_distance: Tensor,
        to_values: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Attend."""
        context, lse = tiles.attend(query, key, value, by_distance, to_values)
        lse = lse.masked_fill(lse == -torch.inf, kernels.EMPTY_ROW)
        ctx.save_for_backward(query, key, value, context, lse, by_distance, to_values)
        ctx.tiles = tiles
        ctx.mark_non_differentiable(lse)
        return context, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        # under a checkpoint these can be read once
        saved = ctx.saved_tensors
        found = ctx.tiles.gradients(grad, *saved)
        return None, *found[:3], *table_gradients(found, grad, *saved[-2:])


def table_gradients(
    found: RelatedGradients, grad: Tensor, by_distance: Tensor, to_values: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The gradients of a relation's numbers and vectors, in their shapes."""
    d_by_distance = found.by_distance.sum_to_size(by_distance.shape).to(by_distance.dtype)
    if to_values is None or found.mass is None:
        return d_by_distance, None
    vectors = wide(found.mass.mT @ grad.to(found.mass.dtype)).sum(0)
    return d_by_distance, vectors.sum_to_size(to_values.shape).to(to_values.dtype)
