"""Joined path on a GPU: cuDNN's or flash's kernel for what is far, one of ours for the band.

The far left is a causal attention of all rows from `reach` on; the far right is one of all rows
until there, if rows and keys are reversed. Our kernel joins both with the band, and in the backward
pass their gradients with its own (band_kernel.py, band_backward_kernel.py), so that nothing is
added, shared out or reversed in a pass of its own over the whole tensors.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.attend import Attended
from regard.attention.banded import products_by_distance
from regard.attention.engine import kernels
from regard.attention.engine.case import Case
from regard.attention.engine.tiled_band import MAX_REACH, fits_tiles
from regard.attention.links import SoftRows, keys_that_exist, wide


def fits_gpu_kernels(case: Case) -> bool:
    """Whether our kernel takes the case: a square map in half precision without a slope."""
    assert case.dot is not None
    reach, n = case.relation.reach, case.query.shape[-2]
    return (
        fits_tiles(case.dot.query, case.dot.key, case.value)
        and reach is not None
        and reach <= MAX_REACH
        and not case.relation.has_slope
        and case.places.past == 0
        and case.key.shape[-2] == n
    )


def attend_joined_on_gpu(case: Case) -> Attended:
    """The attention of a case by two far attentions and the band."""
    assert case.dot is not None and case.softmax is not None and case.kernel_mask is not None
    assert case.relation.reach is not None
    n = case.key.shape[-2]
    is_causal, valid = case.kernel_mask
    valid = None if valid is None else keys_that_exist(valid, n).expand(len(case.query), -1)
    plan = _Map(n, case.relation.reach, is_causal, valid, case.dot.scale * case.softmax)
    inputs = (case.dot.query, case.dot.key, case.value)
    # the GPU is busy with these while the host prepares the rest
    with torch.no_grad():
        far = [x for side in plan.far_sides() for x in _far(plan, *inputs, is_right=side)]
    banded = case.relation.as_banded(case.query)
    assert banded is not None
    by_distance = banded.numbers(case.query, scale=case.dot.scale, sharpness=case.softmax)
    context, lse = _JoinedOnGpu.apply(plan, far, *inputs, by_distance, banded.to_values)
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


@dataclass(frozen=True)
class _Map:
    """The size of a square map, and what of it is seen."""

    n: int
    reach: int
    is_causal: bool
    valid: Bool[Tensor, "b k"] | None
    scale: float

    @property
    def n_far(self) -> int:
        """Rows and keys of either far part."""
        return max(0, self.n - self.reach)

    def far_sides(self) -> tuple[bool, ...]:
        """For each far part that has a pair, whether it is the right one."""
        return () if self.n_far == 0 else (False,) if self.is_causal else (False, True)

    def exist(self, *, is_right: bool) -> Bool[Tensor, "b k"] | None:
        """Which keys of a far part exist."""
        if self.valid is None:
            return None
        if is_right:
            return self.valid[:, self.reach :].flip(-1)
        return self.valid[:, : self.n_far]


class _JoinedOnGpu(torch.autograd.Function):
    """softmax(scale · q kᵀ + relation) v by two far attentions and the band."""

    @staticmethod
    def forward(ctx: Any, plan: _Map, far: list[Tensor], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value, by_distance, to_values = tensors
        out, lse = _operators().band(
            query, key, value, by_distance, to_values, far,
            plan.valid, plan.reach, plan.is_causal, plan.scale,
        )  # fmt: skip
        # the far right's gradient by distance follows from the others
        ctx.save_for_backward(*tensors, out, lse, *far[:2], *far[3:])
        ctx.plan = plan
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        plan: _Map = ctx.plan
        # under a checkpoint these can be read once
        saved = ctx.saved_tensors
        query, key, value, by_distance, to_values, out, lse, *far = saved
        # the right needs most memory, and so comes first
        sides = plan.far_sides()
        found = {
            is_right: _far_gradients(plan, grad, *saved[:7], is_right=is_right)
            for is_right in reversed(sides)
        }
        to_queries = [found[side][0] for side in sides]
        to_keys = [x for side in sides for x in found[side][1:]]
        found.clear()
        along: Tensor | None = None
        if to_values is not None:
            along = products_by_distance(grad, to_values.to(grad.dtype))
        shown = (plan.valid, plan.reach, plan.is_causal, plan.scale)
        both = (grad, query, key, value, by_distance, along)
        d_query, d_by_distance, mass, level = _operators().band_to_queries(
            *both, out, lse, far, to_queries, *shown
        )
        to_queries.clear()
        d_key, d_value = _operators().band_to_keys(*both, lse, level, to_keys, *shown)
        n_distances = by_distance.shape[-1]
        d_by_distance = d_by_distance[..., :n_distances].sum_to_size(by_distance.shape)
        d_to_values: Tensor | None = None
        if to_values is not None:
            vectors = wide(mass.mT @ grad)[..., :n_distances, :].sum(0)
            d_to_values = vectors.sum_to_size(to_values.shape).to(to_values.dtype)
        d_by_distance = d_by_distance.to(by_distance.dtype)
        return None, None, d_query, d_key, d_value, d_by_distance, d_to_values


def _far(
    plan: _Map, query: Tensor, key: Tensor, value: Tensor, *, is_right: bool
) -> tuple[Tensor, Float[Tensor, "b h q"]]:
    """Context and log-sum-exp of a far part in its own order, the relation left out."""
    reach, n_far, valid = plan.reach, plan.n_far, plan.exist(is_right=is_right)
    if is_right:
        query, key, value = _turned([query, key, value], [0, reach, reach], n_far)
    else:
        query, key, value = query[..., reach:, :], key[..., :n_far, :], value[..., :n_far, :]
    context, lse = kernels.softmax_attention(
        query, key, value, None, valid=valid, is_causal=True, scale=plan.scale
    )
    if valid is not None:
        lse = lse.masked_fill(~valid.cummax(-1).values[:, None], -torch.inf)
    return context, lse.contiguous()


def _far_gradients(
    plan: _Map,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    by_distance: Tensor,
    to_values: Tensor | None,
    out: Tensor,
    lse: Tensor,
    *,
    is_right: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a far part for its queries, keys and values, in its order."""
    reach, n_far, distance = plan.reach, plan.n_far, -1 if is_right else 0
    # a vector that all values share moves the context, and no difference to it
    vector = None if to_values is None else to_values[:, distance]
    own = lse - by_distance[..., distance].to(lse.dtype)
    if is_right:
        own = own[..., :n_far].flip(-1)
        # the context comes first, from which the vector is taken
        begins = [0, 0, 0, reach, reach]
        rows = [out, grad, query, key, value]
        out, grad, query, key, value = _turned(rows, begins, n_far, less=vector)
    else:
        own, grad, query = own[..., reach:], grad[..., reach:, :], query[..., reach:, :]
        key, value = key[..., :n_far, :], value[..., :n_far, :]
        (out,) = _turned([out], [reach], n_far, less=vector, is_reversed=False)
    return kernels.softmax_attention_backward(
        grad,
        query,
        key,
        value,
        out,
        own,
        None,
        valid=plan.exist(is_right=is_right),
        is_causal=True,
        scale=plan.scale,
    )


def _turned(
    vectors: list[Tensor],
    begins: list[int],
    n: int,
    *,
    less: Tensor | None = None,
    is_reversed: bool = True,
) -> tuple[Tensor, ...]:
    """`n` rows of each from where it begins, in reverse order; those of the first less a vector."""
    return _operators().turned_rows(vectors, begins, n, is_reversed, less).unbind()


def _operators() -> Any:
    """Our operators, which the modules of the kernels register."""
    # Triton comes with torch only where there is a GPU
    from regard.attention.engine import band_backward_kernel, band_kernel  # noqa: F401

    return torch.ops.regard
