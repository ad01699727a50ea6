"""Ensembles: several models decode together, by the mean of their next-token probabilities.

log p(y) = log (1/n) sum_i p_i(y)
"""

import math
from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.links import wide
from regard.errors import SettingError
from regard.models.stepper import Stepper


@final
class Ensemble:
    """A stepper made of steppers, which share both vocabularies."""

    def __init__(self, models: Sequence[Stepper]) -> None:
        if not models:
            raise SettingError("ensemble: expected at least one model, got none.")
        self.models = tuple(models)

    def start(self, source: Int[Tensor, "b s"]) -> tuple[Any, ...]:
        """Every model reads the source."""
        return tuple(model.start(source) for model in self.models)

    def step(
        self, state: tuple[Any, ...], tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], tuple[Any, ...]]:
        """The logarithm of the mean probability."""
        steps = [model.step(s, tokens) for model, s in zip(self.models, state, strict=True)]
        sizes = {logits.shape[-1] for logits, _ in steps}
        if len(sizes) > 1:
            raise SettingError(
                f"ensemble: the models write vocabularies of {sorted(sizes)} tokens; they must "
                "share one. Train them with the same tokenizer."
            )
        each = torch.stack([wide(logits).log_softmax(-1) for logits, _ in steps])
        return each.logsumexp(0) - math.log(len(steps)), tuple(after for _, after in steps)

    def select(self, state: tuple[Any, ...], rows: Int[Tensor, " r"]) -> tuple[Any, ...]:
        """Every model's."""
        return tuple(model.select(s, rows) for model, s in zip(self.models, state, strict=True))

    def branch(self, state: tuple[Any, ...], parents: Int[Tensor, "b w"]) -> tuple[Any, ...]:
        """Every model's."""
        return tuple(model.branch(s, parents) for model, s in zip(self.models, state, strict=True))
