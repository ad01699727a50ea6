"""The loss: label-smoothed cross-entropy that never holds all logits.

    loss = (1 - eps) · -log p[gold]  +  eps · mean over v ≠ pad of -log p[v]

Szegedy et al. 2016, section 7. Logits are made a few rows at a time, in float32, and turned into
gradients at once; only the gradients of hidden states and output weights are kept. Padding has no
loss, and no share of the smoothing.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.stepping import PAD

LOGITS_AT_ONCE = 1 << 24
"""How many logits exist at a time."""


class Loss(NamedTuple):
    """Sums over the tokens that count; divide by the update's tokens, not the batch's."""

    total: Float[Tensor, ""]
    """With smoothing; what is minimised."""
    nll: Float[Tensor, ""]
    """Without smoothing; what is reported. It has no gradient."""


def token_loss(
    hidden: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    smoothing: float = 0.0,
    scale: float = 1.0,
) -> Loss:
    """Sum the loss over all tokens that are not padding, times `scale`.

    Args:
        hidden: what the output layer reads.
        output: the output layer's weight.
        gold: the right tokens; padding does not count.
        smoothing: the share of the target that is spread over the vocabulary.
        scale: one over the tokens of the update, so that gradients add up over micro-batches.
    """
    total, nll = _RowByRow.apply(hidden.flatten(0, 1), output, gold.flatten(), smoothing, scale)
    return Loss(total, nll)


class _RowByRow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        output: Tensor,
        gold: Tensor,
        smoothing: float,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        learns = any(ctx.needs_input_grad)
        counts = gold != PAD
        # under autocast the products are made in its type, and the sums in float32
        kept, low = hidden.dtype, _product_type(hidden)
        hidden, gold, weight = hidden[counts].to(low), gold[counts], output.to(low)
        d_hidden = torch.zeros_like(hidden) if learns else None
        d_output = torch.zeros_like(output) if learns else None
        total = hidden.new_zeros((), dtype=torch.promote_types(low, torch.float32))
        nll, share = total.clone(), smoothing / (len(output) - 1)
        at_once = max(1, LOGITS_AT_ONCE // len(output))
        for first in range(0, len(hidden), at_once):
            rows = slice(first, first + at_once)
            logs = (hidden[rows] @ weight.mT).to(total.dtype).log_softmax(-1)
            right = -logs.gather(-1, gold[rows, None]).sum()
            nll += right
            # every token but the padding has its share of what is smoothed away
            total += (1 - smoothing) * right - share * (logs.sum() - logs[:, PAD].sum())
            if d_hidden is None or d_output is None:
                continue
            grad = logs.exp_().sub_(share)
            grad[:, PAD] += share
            grad.scatter_add_(-1, gold[rows, None], grad.new_full((len(grad), 1), smoothing - 1))
            grad = (grad * scale).to(low)
            d_hidden[rows] = grad @ weight
            d_output += grad.mT @ hidden[rows]
        ctx.kept = kept
        if d_hidden is not None:
            ctx.save_for_backward(d_hidden, d_output, counts)
        ctx.mark_non_differentiable(nll)
        return total * scale, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_output, counts = ctx.saved_tensors
        spread = d_hidden.new_zeros(len(counts), d_hidden.shape[-1], dtype=ctx.kept)
        spread[counts] = (d_hidden * grad).to(ctx.kept)
        return spread, d_output * grad, None, None, None


def _product_type(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
