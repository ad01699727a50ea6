"""Hard attention's loss: what trains scores through whose draws no gradient passes.

    loss - λ_r (R - b) log p(s | x) - λ_e H
    where  R = log p(y | s, x),  log p(s | x) = Σ log a[q,s[q]],  H = Σ H[a[q]],
           b ← 0.9 b + 0.1 mean of R

The sums are over the draws of a reading: of every query that stands for a token, in every head and
layer that selects "hard". With λ_r = 1 and λ_e = 0 the gradient is, on average over draws, that of
the variational bound L = Σ_s p(s | x) log p(y | s, x) <= log p(y | x). The credit R goes to all
draws of a reading alike, and has no gradient. Each reading takes draws or, chosen at random, their
expectation throughout; an expectation gets no credit, and trains the scores only if
`learns_from_expected` lets the gradient through, as in soft attention.

Paper: Xu et al. 2015 (Show, Attend and Tell), section 4.1, equations 11 and 12.
Cost: that of the pass, for each reading.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Chain
from regard.attention.selections.hard import HardRows, HardSelection
from regard.models.hard_spec import HardSpec
from regard.models.recurrent.attention import SourceAttention
from regard.models.shapes import SourceTokens, TargetTokens
from regard.models.stepper import PAD
from regard.models.trainable import Extra, LossInputs

BASELINE_KEPT = 0.9
"""Decay of the baseline for each batch."""


@runtime_checkable
class HardSettings(Protocol):
    """How hard attention learns; a captioner's spec has the same keys."""

    @property
    def reinforce(self) -> float:
        """λ_r."""

    @property
    def entropy(self) -> float:
        """λ_e."""

    @property
    def expected_share(self) -> float:
        """Probability that a reading takes expectations."""

    @property
    def credit(self) -> str:
        """What R is."""


@runtime_checkable
class DrawingModel(Protocol):
    """A model whose attentions draw."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Its parts by their place."""

    def plain_loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Read a batch; the loss of its words, as if nothing were drawn."""

    def queries(
        self, place: str, source: SourceTokens, target: TargetTokens
    ) -> Bool[Tensor, "b q"]:
        """True for the queries of the attention at `place` that stand for a token."""


@final
class HardAttention(nn.Module):
    """Adds to a model's loss what its draws learn from; the baseline is saved with the weights."""

    baseline: Tensor

    def __init__(self, spec: HardSpec) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("baseline", torch.zeros(()))

    def loss_inputs(
        self, model: DrawingModel, source: SourceTokens, target: TargetTokens
    ) -> LossInputs:
        """Read a batch with draws, once for each sample, and add the terms of its draws."""
        spec = self.spec
        source, target = (each.repeat_interleave(spec.n_samples, 0) for each in (source, target))
        expects = expectation_rows(spec, len(target), target.device)
        with drawing(model, expects, learns=spec.learns_from_expected) as drawn:
            inputs = model.plain_loss_inputs(source, target)
        sums = [
            _summed(rows, model.queries(place, source, target)) for place, rows in drawn.items()
        ]
        log_prob, entropy = (torch.stack(each).sum(0) for each in zip(*sums, strict=True))
        n_words = (inputs.gold != PAD).sum(1)
        return replace(inputs, extra=partial(self._term, log_prob, entropy, n_words, inputs.extra))

    def _term(
        self,
        log_prob: Float[Tensor, " b"],
        entropy: Float[Tensor, " b"],
        n_words: Int[Tensor, " b"],
        other: Extra | None,
        log_p: Float[Tensor, "b t"],
    ) -> Float[Tensor, ""]:
        gained = reinforced(self.spec, self.baseline, log_p, n_words, log_prob, entropy)
        return (0.0 if other is None else other(log_p)) - gained.sum()


def hard_attention(spec: HardSpec | None) -> HardAttention | None:
    """What draws learn by; None for a model that draws nothing."""
    return None if spec is None else HardAttention(spec)


def expectation_rows(
    settings: HardSettings, n_rows: int, device: torch.device
) -> Bool[Tensor, " b"] | None:
    """The readings that take the expectation and not a draw, at random; None if none does."""
    if not settings.expected_share:
        return None
    return torch.rand(n_rows, device=device) < settings.expected_share


def reinforced(
    settings: HardSettings,
    baseline: Tensor,
    log_p: Float[Tensor, "b t"],
    n_words: Int[Tensor, " b"],
    log_prob: Float[Tensor, " b"],
    entropy: Float[Tensor, " b"],
) -> Float[Tensor, " b"]:
    """λ_r (R - b) log p(s | x) + λ_e H of each reading; the baseline moves towards the batch."""
    credit = log_p.detach().sum(1)
    credit = credit / n_words if settings.credit == "word" else credit
    gained = settings.reinforce * (credit - baseline) * log_prob + settings.entropy * entropy
    with torch.no_grad():
        baseline.lerp_(credit.mean().to(baseline.dtype), 1 - BASELINE_KEPT)
    return gained


@contextmanager
def drawing(
    model: DrawingModel, expects: Bool[Tensor, " b"] | None, *, learns: bool
) -> Iterator[dict[str, list[HardRows]]]:
    """Collect what the attentions of a pass draw, by their place in the model, in its order.

    The readings of `expects` take expectations in every attention.
    """
    drawn: dict[str, list[HardRows]] = {}

    def listen(place: str, _: nn.Module, given: Any, result: Any) -> None:
        if isinstance(result.rows, HardRows):
            drawn.setdefault(place, []).append(result.rows)

    with ExitStack() as stack:
        parts = list(model.named_modules())
        for place, part in parts:
            if isinstance(part, Chain | SourceAttention):
                stack.callback(part.register_forward_hook(partial(listen, place)).remove)
        for chain in [part for _, part in parts if isinstance(part, Chain)]:
            if expects is not None and isinstance(chain.select, HardSelection):
                stack.callback(setattr, chain, "select", chain.select)
                chain.select = chain.select.expecting(expects.view(-1, 1, 1, 1), learns=learns)
        yield drawn


def _summed(
    rows: list[HardRows], counts: Bool[Tensor, "b q"]
) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
    """Log-probability and entropy of one attention's draws, over heads and queries that count."""
    log_prob, entropy = (
        (torch.cat(parts, -2).squeeze(-1) * counts[:, None]).sum((1, 2))
        for parts in ([one.log_prob for one in rows], [one.entropy for one in rows])
    )
    return log_prob, entropy
