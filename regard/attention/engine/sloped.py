"""Sloped attention on a GPU: a relation that is a straight line on either side, in one kernel.

The kernel leaves out the keys that the slope hides (slope_kernel.py).
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.attend import Attended
from regard.attention.engine.case import Case
from regard.attention.engine.tiled_band import fits_tiles
from regard.attention.links import SoftRows, keys_that_exist


def fits_slope_kernel(case: Case) -> bool:
    """Whether the kernel takes the case: half precision, and a line from distance 1 on."""
    assert case.dot is not None
    relation = case.relation
    is_line = relation.has_slope and relation.reach == 1 and not relation.reads_query
    return is_line and fits_tiles(case.dot.query, case.dot.key, case.value)


def attend_sloped(case: Case) -> Attended:
    """The attention of a case by the kernel."""
    assert case.dot is not None and case.softmax is not None and case.kernel_mask is not None
    banded = case.relation.as_banded(case.query)
    assert banded is not None and banded.slope is not None and case.places.past is not None
    is_causal, valid = case.kernel_mask
    if valid is not None:
        valid = keys_that_exist(valid, case.key.shape[-2]).expand(len(case.query), -1)
    context, lse = _Sloped.apply(
        case.dot.query,
        case.dot.key,
        case.value,
        banded.numbers(case.query, scale=case.dot.scale, sharpness=case.softmax),
        banded.slope * case.softmax,
        valid,
        Settings(case.places.past, is_causal, case.dot.scale * case.softmax),
    )
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


class Settings(NamedTuple):
    """What the kernel reads besides tensors."""

    past: int
    is_causal: bool
    scale: float


class _Sloped(torch.autograd.Function):
    """Context and log-sum-exp, differentiable in query, key and value."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        by_distance: Float[Tensor, "#b h #q r"],
        slope: Float[Tensor, " h"],
        valid: Bool[Tensor, "b k"] | None,
        settings: Settings,
    ) -> tuple[Tensor, Tensor]:
        """Attend."""
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.slope_kernel import line_of

        line = line_of(query, key, by_distance, slope, valid, *settings)
        context, lse = torch.ops.regard.sloped(query, key, value, *line, valid, *settings)
        ctx.save_for_backward(query, key, value, context, lse, *line, valid)
        ctx.settings = settings
        ctx.mark_non_differentiable(lse)
        return context, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        found = torch.ops.regard.sloped_backward(grad, *ctx.saved_tensors, *ctx.settings)
        return (*found, *(None,) * 4)
