"""R-Drop's divergence: how far two passes of a batch lie apart, never holding all logits.

    D(p, q) = KL(p ‖ q) + KL(q ‖ p) = Σ (p − q) (ln p − ln q)

    ∂D/∂a = p (d − KL(p ‖ q)) + p − q,   d = ln p − ln q,   p = softmax(a)

and the same with p and q exchanged for the other pass. As in the loss, logits are made a few rows
at a time, in float32, and turned into gradients at once.

Paper: Liang et al. 2021, equation 2.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.stepper import PAD
from regard.training.losses import LOGITS_AT_ONCE


def divergence(
    first: Float[Tensor, "b t m"],
    second: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    scale: Tensor | float | int = 1.0,
) -> Float[Tensor, ""]:
    """Sum D(p, q) over all tokens that are not padding, times `scale`.

    Args:
        first: what the output layer reads in one pass.
        second: the same in the other.
        output: the output layer's weight.
        gold: the right tokens; where there is padding nothing is compared.
        scale: of the sum.
    """
    # what does not count is the same in both passes, and so lies nothing apart
    hidden = (gold == PAD).flatten()[:, None]
    first, second = (each.flatten(0, 1).masked_fill(hidden, 0.0) for each in (first, second))
    return _RowByRow.apply(first, second, output, scale)


class _RowByRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, output: Tensor, scale: Any) -> Tensor:
        # under autocast the products are made in its type, and the sums in float32
        kind = first.device.type
        low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else first.dtype
        ctx.kept = first.dtype
        first, second, weight = first.to(low), second.to(low), output.to(low)
        total = first.new_zeros((), dtype=torch.promote_types(low, torch.float32))
        d_first, d_second = torch.zeros_like(first), torch.zeros_like(second)
        d_output = torch.zeros_like(output)
        at_once = max(1, LOGITS_AT_ONCE // (2 * len(output)))
        for begin in range(0, len(first), at_once):
            rows = slice(begin, begin + at_once)
            p, q = (_logs(side[rows] @ weight.mT, total.dtype) for side in (first, second))
            d = p - q
            p, q = p.exp_(), q.exp_()
            total += (d * (p - q)).sum()
            grad = (_gradient(p, q, d) * scale).to(low)
            d_first[rows] = grad @ weight
            d_output += grad.mT @ first[rows]
            grad = (_gradient(q, p, -d) * scale).to(low)
            d_second[rows] = grad @ weight
            d_output += grad.mT @ second[rows]
        ctx.save_for_backward(d_first, d_second, d_output)
        return total * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_first, d_second, d_output = ctx.saved_tensors
        return (d_first * grad).to(ctx.kept), (d_second * grad).to(ctx.kept), d_output * grad, None


def _logs(logits: Tensor, dtype: torch.dtype) -> Tensor:
    return logits.to(dtype).log_softmax(-1)


def _gradient(p: Tensor, q: Tensor, d: Tensor) -> Tensor:
    """Of D by p's logits; `d` is ln p − ln q."""
    return p * (d - (p * d).sum(-1, keepdim=True)) + p - q
