"""Sloped attention on a GPU: a relation that is a straight line on either side, in one kernel.

A slope below zero hides what is far: no score of a head is larger than scale · max |q| · max |k|,
so that from some distance on each weight is below exp(-MARGIN) of the row's largest, which no sum
in single precision notices. The kernel leaves these keys out (slope_kernel.py); with steep slopes
they are most.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.attention.attend import Attended
from regard.attention.engine.case import Case
from regard.attention.engine.tiled_band import fits_tiles
from regard.attention.links import SoftRows, keys_that_exist

MARGIN = 40.0
"""Keys are left out whose weight is below exp(-MARGIN) of the largest in their row."""


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


class Line(NamedTuple):
    """The bias of each head: its numbers left of, at and right of a row's position, and the slope.

    Beyond `limit` a head's keys have no weight that counts.
    """

    numbers: Tensor
    """`h 4`: left, middle, right, slope."""
    limit: Tensor
    """`b h`, whole numbers."""


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
        # Triton comes with torch only where there is a GPU; the kernel's module registers it
        from regard.attention.engine import slope_kernel  # noqa: F401

        line = line_of(query, key, by_distance, slope, valid, settings)
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


def line_of(
    query: Tensor,
    key: Tensor,
    by_distance: Tensor,
    slope: Tensor,
    valid: Tensor | None,
    settings: Settings,
) -> Line:
    """The bias of each head, from its numbers at distances -1 to 1 and its slope."""
    past, is_causal, scale = settings
    numbers = torch.cat((by_distance.float().reshape(-1, 3), slope.float()[:, None]), 1)
    (b, h, nq, _), nk = query.shape, key.shape[-2]
    if b * h * nq * nk == 0:
        return Line(numbers, numbers.new_zeros(b, h, dtype=torch.int32))
    sizes = [
        torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32).amax(-1) for x in (query, key)
    ]
    spread = 2 * scale * sizes[0] * sizes[1] + numbers[:, :3].amax(1) - numbers[:, :3].amin(1)
    # the distance from a row to its nearest key
    nearest = _nearest(valid, nk, past, nq, is_causal=is_causal)
    limit = (spread + MARGIN) / (-numbers[:, 3]).clamp(min=1e-6) + nearest + 1
    longest = float(nq + nk + past)
    return Line(numbers, limit.nan_to_num(longest).clamp(max=longest).to(torch.int32))


def _nearest(valid: Tensor | None, nk: int, past: int, nq: int, *, is_causal: bool) -> Tensor | int:
    """The longest distance of a row to the nearest key that it sees, for each sentence."""
    if valid is None:
        return max(0, past + nq - nk)
    length = max(past + nq, nk)
    at, never = torch.arange(length, device=valid.device), 4 * length
    exists = pad(valid, (0, length - nk))
    nearest = at - torch.where(exists, at, -never).cummax(-1).values
    if not is_causal:
        after = torch.where(exists, at, never).flip(-1).cummin(-1).values.flip(-1)
        nearest = torch.minimum(nearest, after - at)
    nearest = nearest[:, past : past + nq]
    # rows that see nothing need nothing
    return nearest.masked_fill(nearest > 2 * length, 0).amax(-1, keepdim=True)
