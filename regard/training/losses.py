"""The loss: label-smoothed cross-entropy that never holds all logits.

    loss = (1 - eps) · -log p[gold]  +  eps · mean over v ≠ pad of -log p[v]

Szegedy et al. 2016, section 7. Logits are made a few rows at a time and turned into gradients in
place; only the gradients of hidden states and output weights are kept. Padding has no
loss, and no share of the smoothing.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.stepper import PAD

LOGITS_AT_ONCE = 1 << 22
"""How many logits exist at a time …"""

LOGITS_AT_ONCE_ON_A_GPU = 1 << 28
"""… and on a GPU, which wants larger products."""


class Loss(NamedTuple):
    """Sums over the tokens that count; divide by the update's tokens, not the batch's."""

    total: Float[Tensor, ""]
    """With smoothing; what is minimised."""
    nll: Float[Tensor, ""]
    """Without smoothing; what is reported. It has no gradient."""
    asked: Int[Tensor, ""]
    """How many tokens count."""


def token_loss(
    hidden: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    smoothing: float = 0.0,
    scale: Tensor | float | int = 1.0,
) -> Loss:
    """Sum the loss over all tokens that are not padding, times `scale`.

    Args:
        hidden: what the output layer reads.
        output: the output layer's weight.
        gold: the right tokens; padding does not count.
        smoothing: the share of the target that is spread over the vocabulary.
        scale: one over the tokens of the update, so that gradients add up over micro-batches.
    """
    total, nll = _RowByRow.apply(
        hidden.flatten(0, 1), output, gold.flatten(), smoothing, scale, None
    )
    return Loss(total, nll, (gold != PAD).sum())


def token_losses(
    hidden: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    smoothing: float = 0.0,
    scale: Tensor | float | int = 1.0,
) -> tuple[Loss, Float[Tensor, "b t"]]:
    """The same, and -log p of each right token: 0 for padding, and without a gradient."""
    each: list[Tensor] = []
    total, nll = _RowByRow.apply(
        hidden.flatten(0, 1), output, gold.flatten(), smoothing, scale, each
    )
    return Loss(total, nll, (gold != PAD).sum()), each[0].view_as(gold)


class _RowByRow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        output: Tensor,
        gold: Tensor,
        smoothing: float,
        scale: Tensor | float | int,
        each: list[Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        learns, counts = any(ctx.needs_input_grad), gold != PAD
        # under autocast the products are made in its type, and the sums in float32
        low = _product_type(hidden)
        ctx.kept = hidden.dtype
        # rows that do not count are read as zeros, and so add nothing to the weights' gradient
        hidden, weight = hidden.masked_fill(~counts[:, None], 0.0).to(low), output.to(low)
        right, rest = (
            hidden.new_zeros(len(gold), dtype=torch.promote_types(low, torch.float32))
            for _ in range(2)
        )
        d_hidden = torch.empty_like(hidden) if learns else None
        d_output = torch.zeros_like(output) if learns else None
        is_gpu = hidden.device.type == "cuda"
        logits_at_once = LOGITS_AT_ONCE_ON_A_GPU if is_gpu else LOGITS_AT_ONCE
        at_once = max(1, logits_at_once // len(output))
        for first in range(0, len(gold), at_once):
            rows = slice(first, first + at_once)
            logits = hidden[rows] @ weight.mT
            right[rows], rest[rows] = _into_gradient(logits, gold[rows], smoothing)
            if d_hidden is not None and d_output is not None:
                torch.mm(logits, weight, out=d_hidden[rows])
                d_output += logits.mT @ hidden[rows]
        if d_hidden is not None:
            ctx.save_for_backward(d_hidden, d_output, counts)
        ctx.scale = scale
        nll, others = (right * counts).sum(), (rest * counts).sum()
        ctx.mark_non_differentiable(nll)
        if each is not None:
            each.append(right * counts)
        share = smoothing / (len(output) - 1)
        return ((1 - smoothing) * nll + share * others) * scale, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_output, counts = ctx.saved_tensors
        grad = grad * ctx.scale
        d_hidden = (d_hidden * grad).to(ctx.kept) * counts[:, None]
        return d_hidden, d_output * grad, None, None, None, None


def _into_gradient(logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Overwrite logits by their gradient; -log p of the right token, and of all but padding."""
    if logits.device.type == "cuda" and logits.dtype is not torch.float64:
        # Triton comes with torch only where there is a GPU
        from regard.training.softmax_kernel import into_gradient

        return into_gradient(logits, gold, smoothing=smoothing, pad=PAD)
    n = logits.shape[-1]
    logs = logits.log_softmax(-1)
    right = -logs.gather(-1, gold[:, None])
    rest = logs[:, PAD] - logs.sum(-1)
    # every token but the padding has its share of what is smoothed away
    share = smoothing / (n - 1)
    grad = torch.exp(logs, out=logits).sub_(share)
    grad[:, PAD] += share
    grad.scatter_add_(-1, gold[:, None], right.new_full(right.shape, smoothing - 1))
    return right.squeeze(-1), rest


def _product_type(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
