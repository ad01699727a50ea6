"""Losses over a vocabulary that never hold all logits: cross-entropy, and R-Drop's divergence.

    loss = (1 - eps) · -log p[gold]  +  eps · mean over v ≠ pad of -log p[v]

    D(p, q) = KL(p ‖ q) + KL(q ‖ p) = Σ (p − q) (ln p − ln q)
    ∂D/∂a = p (d − KL(p ‖ q)) + p − q,   d = ln p − ln q,   p = softmax(a)

and the same with p and q exchanged for the other pass. Logits are made a few rows at a time and
turned into gradients at once; only the gradients of hidden states and output weights are kept.
Padding has no loss, and no share of the smoothing.

Papers: Szegedy et al. 2016, section 7; Liang et al. 2021, equation 2 (R-Drop).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.errors import SettingError
from regard.models import LossInputs
from regard.models.stepper import PAD
from regard.recipes.training_recipe import TrainingRecipe

LossInputsFunction = Callable[[Tensor, Tensor], LossInputs]
"""A model's `loss_inputs`, compiled or not."""
LOGITS_AT_ONCE, LOGITS_AT_ONCE_ON_A_GPU = 1 << 22, 1 << 28
"""How many logits exist at a time; a GPU is faster with larger products."""


class Loss(NamedTuple):
    """Sums over the tokens with a loss; divide by the update's tokens, not the batch's."""

    total: Float[Tensor, ""]
    """The loss with smoothing; the only field with a gradient."""
    nll: Float[Tensor, ""]
    """The loss without smoothing, for reports."""
    n_tokens: Int[Tensor, ""]
    """How many tokens have a loss."""
    each: Float[Tensor, "b t"]
    """-log p of each right token, and 0 for padding."""


def token_loss(
    hidden: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    first: int = 0,
    smoothing: float = 0.0,
    scale: Tensor | float | int = 1.0,
) -> Loss:
    """Sum the cross-entropy over all tokens that are not padding, times `scale`.

    `output` is the weight of the layer that reads `hidden`, `first` the token of its first row,
    `smoothing` the share of the target that is spread over the vocabulary; with one over the tokens
    of an update as `scale`, gradients add up over its batches.
    """
    rows, tokens = hidden.flatten(0, 1), gold.flatten()
    total, nll, each = _CrossEntropy.apply(rows, output, tokens, first, smoothing, scale)
    return Loss(total, nll, (gold != PAD).sum(), each.view_as(gold))


def divergence(
    first: Float[Tensor, "b t m"],
    second: Float[Tensor, "b t m"],
    output: Float[Tensor, "v m"],
    gold: Int[Tensor, "b t"],
    *,
    scale: Tensor | float | int = 1.0,
) -> Float[Tensor, ""]:
    """Sum D(p, q) between two passes over all tokens that are not padding, times `scale`."""
    # padding is the same in both passes, and so adds nothing
    is_padding = (gold == PAD).flatten()[:, None]
    first, second = (each.flatten(0, 1).masked_fill(is_padding, 0.0) for each in (first, second))
    return _Divergence.apply(first, second, output, scale)


@final
@dataclass(frozen=True)
class Objective:
    """Cross-entropy with label smoothing; with R-Drop over two passes whose dropout differs.

        loss = ½ · (CE(p) + CE(q) + α · ½ · (KL(p ‖ q) + KL(q ‖ p)))

    Without dropout both passes are one, and so this is plain cross-entropy.
    """

    smoothing: float | int = 0.0
    r_drop: float | int = 0.0
    """α, the weight of the divergence of two passes; 0 makes one pass."""

    @classmethod
    def of(cls, training: TrainingRecipe) -> "Objective":
        """The objective of a recipe."""
        return cls(training.label_smoothing, training.r_drop)

    def __call__(
        self,
        loss_inputs: LossInputsFunction,
        output: nn.Linear,
        source: Shaped[Tensor, "b ..."],
        target: Int[Tensor, "b t"],
        *,
        scale: Tensor | float | int = 1.0,
    ) -> Loss:
        """Sum over the batch's tokens, times `scale`."""
        if self.r_drop:
            twice = source.repeat(2, *(1,) * (source.dim() - 1))
            return self._compared(loss_inputs(twice, target.repeat(2, 1)), output.weight, scale)
        read, smoothing = loss_inputs(source, target), float(self.smoothing)
        hidden, gold = read
        if read.extra is None:
            return token_loss(
                hidden, output.weight, gold, first=read.first, smoothing=smoothing, scale=scale
            )
        # the mean over the readings of each row, of its tokens' losses and of the term beside them
        n_readings = len(gold) // len(target)
        scale = scale / n_readings
        loss = token_loss(
            hidden, output.weight, gold, first=read.first, smoothing=smoothing, scale=scale
        )
        total = loss.total + read.extra(-loss.each) * scale
        return loss._replace(
            total=total, nll=loss.nll / n_readings, n_tokens=loss.n_tokens // n_readings
        )

    def _compared(self, read: LossInputs, weight: Tensor, scale: Tensor | float | int) -> Loss:
        """The loss of both halves of a doubled batch, and the divergence between them."""
        if read.extra is not None:
            raise SettingError(
                "training.r_drop: two passes are compared by what they say, but this model's loss "
                "has a term besides. Set r_drop = 0, or take the term away: select = 'soft' for "
                "hard attention, with penalty = 0 for a captioner, experts.balance = 0 for a "
                "mixture of experts."
            )
        (hidden, gold), smoothing = read, float(self.smoothing)
        loss = token_loss(
            hidden, weight, gold, first=read.first, smoothing=smoothing, scale=scale / 2
        )
        first, second = hidden.chunk(2)
        apart = divergence(first, second, weight, gold.chunk(2)[0], scale=scale * self.r_drop / 4)
        return loss._replace(
            total=loss.total + apart, nll=loss.nll / 2, n_tokens=loss.n_tokens // 2
        )


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        output: Tensor,
        gold: Tensor,
        first: int,
        smoothing: float,
        scale: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        learns, counts = any(ctx.needs_input_grad), gold != PAD
        # padding, which does not count, may have no row
        gold, pad = (gold - first).clamp(min=0), PAD - first
        # under autocast the products are made in its type, and the sums in float32
        low = _product_type(hidden)
        ctx.kept, ctx.scale = hidden.dtype, scale
        # rows that do not count are read as zeros, and so add nothing to the weights' gradient
        hidden, weight = hidden.masked_fill(~counts[:, None], 0.0).to(low), output.to(low)
        right, rest = (
            hidden.new_zeros(len(gold), dtype=torch.promote_types(low, torch.float32))
            for _ in range(2)
        )
        d_hidden = torch.empty_like(hidden) if learns else None
        d_output = torch.zeros_like(output) if learns else None
        is_gpu = hidden.device.type == "cuda"
        limit = LOGITS_AT_ONCE_ON_A_GPU if is_gpu else LOGITS_AT_ONCE
        at_once = max(1, limit // len(output))
        for begin in range(0, len(gold), at_once):
            rows = slice(begin, begin + at_once)
            logits = hidden[rows] @ weight.mT
            right[rows], rest[rows] = _into_gradient(logits, gold[rows], smoothing, pad)
            if d_hidden is not None and d_output is not None:
                torch.mm(logits, weight, out=d_hidden[rows])
                d_output += logits.mT @ hidden[rows]
        if d_hidden is not None:
            ctx.save_for_backward(d_hidden, d_output, counts)
        each = right * counts
        nll, others = each.sum(), (rest * counts).sum()
        ctx.mark_non_differentiable(nll, each)
        share = smoothing / _n_smoothed(len(output), pad)
        return ((1 - smoothing) * nll + share * others) * scale, nll, each

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_output, counts = ctx.saved_tensors
        grad = grad * ctx.scale
        d_hidden = (d_hidden * grad).to(ctx.kept) * counts[:, None]
        return d_hidden, d_output * grad, None, None, None, None


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, output: Tensor, scale: Any) -> Tensor:
        low, ctx.kept = _product_type(first), first.dtype
        first, second, weight = first.to(low), second.to(low), output.to(low)
        total = first.new_zeros((), dtype=torch.promote_types(low, torch.float32))
        d_first, d_second = torch.zeros_like(first), torch.zeros_like(second)
        d_output = torch.zeros_like(output)
        at_once = max(1, LOGITS_AT_ONCE // (2 * len(output)))
        for begin in range(0, len(first), at_once):
            rows = slice(begin, begin + at_once)
            p, q = (
                (side[rows] @ weight.mT).to(total.dtype).log_softmax(-1) for side in (first, second)
            )
            d = p - q
            p, q = p.exp_(), q.exp_()
            total += (d * (p - q)).sum()
            for side, d_side, own, other, ahead in (
                (first, d_first, p, q, d),
                (second, d_second, q, p, -d),
            ):
                mean = (own * ahead).sum(-1, keepdim=True)
                grad = ((own * (ahead - mean) + own - other) * scale).to(low)
                d_side[rows] = grad @ weight
                d_output += grad.mT @ side[rows]
        ctx.save_for_backward(d_first, d_second, d_output)
        return total * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_first, d_second, d_output = ctx.saved_tensors
        return (d_first * grad).to(ctx.kept), (d_second * grad).to(ctx.kept), d_output * grad, None


def _n_smoothed(n_rows: int, pad: int) -> int:
    """How many rows of the output layer share the smoothing: all but padding's, if it has one."""
    return n_rows - (pad >= 0)


def _into_gradient(
    logits: Tensor, gold: Tensor, smoothing: float, pad: int
) -> tuple[Tensor, Tensor]:
    """Overwrite logits by their gradient; -log p of the right token, and of all but padding.

    `pad` is the column of padding; below 0 there is none.
    """
    if logits.device.type == "cuda" and logits.dtype is not torch.float64:
        # Triton comes with torch only where there is a GPU
        from regard.training.softmax_kernel import into_gradient

        return into_gradient(logits, gold, smoothing=smoothing, pad=pad)
    # a sum over a vocabulary is too large for float16
    logs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    right = -logs.gather(-1, gold[:, None])
    rest = -logs.sum(-1)
    # smoothing gives every token but padding an equal share
    share = smoothing / _n_smoothed(logits.shape[-1], pad)
    if pad >= 0:
        rest += logs[:, pad]
    grad = torch.exp(logs, out=logits).sub_(share)
    if pad >= 0:
        grad[:, pad] += share
    grad.scatter_add_(-1, gold[:, None], grad.new_full(right.shape, smoothing - 1))
    return right.squeeze(-1), rest


def _product_type(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
