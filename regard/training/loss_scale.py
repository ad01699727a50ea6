"""Loss scale: a factor that keeps the gradients of a training in float16 within its numbers.

    loss · s → backward → gradient / s → clipped → the optimiser's step

float16 ends at 65,504 and has nothing below 6e-8, where many gradients lie. A gradient that
overflows all the same is thrown away: the update is skipped and s halved. After `GROWTH_EVERY`
updates without one, s is doubled. Paper: Micikevicius et al. 2018, section 3.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.errors import RunError, SettingError
from regard.hardware.hardware import Hardware

FIRST = 2.0**16
LEAST = 2.0**-14
"""A gradient that overflows even so small is that of a model that ran away."""
GROWTH_EVERY = 2000


def first_factor(hardware: Hardware) -> float:
    """The factor of a first gradient on this hardware; 1 where none can overflow."""
    return FIRST if hardware.scales_loss else 1.0


@dataclass(frozen=True)
class LossScale:
    """The factor after some updates, as a checkpoint keeps it."""

    factor: float = FIRST
    since: int = 0
    """Updates since it last changed."""
    skipped: int = 0
    """Updates that were thrown away, in all."""

    def __post_init__(self) -> None:
        if not LEAST <= self.factor < float("inf") or self.since < 0 or self.skipped < 0:
            raise SettingError(f"factor must be at least {LEAST} and the counts 0, got {self}.")

    @torch.no_grad()
    def unscale(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divide the gradients by the factor, which is a power of two: none is rounded."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(1 / self.factor)

    def after(self, step: int, *, is_skipped: bool) -> "LossScale":
        """The factor after update `step`; an error if it can get no smaller."""
        if not is_skipped:
            grows = self.since + 1 == GROWTH_EVERY
            factor = self.factor * 2 if grows else self.factor
            return replace(self, factor=factor, since=0 if grows else self.since + 1)
        if self.factor / 2 < LEAST:
            raise RunError(
                f"training: at step {step} the gradient overflows float16 even with its loss "
                f"scaled by {self.factor:.2g}: it ran away. Lower training.learning_rate or raise "
                "training.warmup_steps, or take --precision bfloat16 or float32, whose numbers "
                "are larger."
            )
        return LossScale(self.factor / 2, 0, self.skipped + 1)

    def skip_note(self, step: int) -> str:
        """A sentence on the first update that was skipped."""
        return (
            f"step {step}: the gradient overflowed float16, so that this update was skipped and "
            f"the loss scale is {self.factor:,.5g} from here on. That is how it finds its size; "
            "skipped updates are counted in metrics.jsonl and card.md."
        )
