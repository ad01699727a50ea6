"""Schedules: the learning rate of each update, from the first to the last.

    noam                   factor · d^(-1/2) · min(t^(-1/2), t · warmup^(-3/2))
    inverse_square_root    peak · min(t / warmup, sqrt(warmup / t))
    cosine                 peak · min(t / warmup, (1 + cos(pi · progress)) / 2)
    constant               peak · min(t / warmup, 1)
    halving                peak · min(t / warmup, 1) · 2^(-halvings),
                           the first after a share of the training, then one at equal distances

Steps count from 1. Vaswani et al. 2017, section 5.3; Loshchilov & Hutter 2017; Luong, Pham &
Manning 2015, section 4.1: ten epochs, and after five of them a halving before every further one.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The inputs of a schedule."""

    peak: float
    """The largest learning rate (noam: a factor)."""
    warmup_steps: int
    """Updates until the peak."""
    steps: int
    """Updates of the whole training."""
    d_model: float | int
    """Width of the model (noam)."""
    halve_after: float = 0.5
    """The share of the training after which the rate is halved (halving)."""
    halve_every: float = 0.1
    """The share of the training between two halvings."""


def noam(step: int, pace: Pace) -> float:
    """The Transformer paper's: linear warm-up, then the inverse square root."""
    rise = step * max(1, pace.warmup_steps) ** -1.5
    return pace.peak * pace.d_model**-0.5 * min(step**-0.5, rise)


def inverse_square_root(step: int, pace: Pace) -> float:
    """The same shape with its peak given."""
    warmup = max(1, pace.warmup_steps)
    return pace.peak * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, pace: Pace) -> float:
    """Linear warm-up, then half a cosine down to nothing at the last step."""
    if step < pace.warmup_steps:
        return pace.peak * step / pace.warmup_steps
    progress = (step - pace.warmup_steps) / max(1, pace.steps - pace.warmup_steps)
    return pace.peak * (1 + math.cos(math.pi * min(1.0, progress))) / 2


def constant(step: int, pace: Pace) -> float:
    """Linear warm-up, then always the same."""
    return pace.peak * min(1.0, step / max(1, pace.warmup_steps))


def halving(step: int, pace: Pace) -> float:
    """Constant, then halved at equal distances."""
    share = (step - 1) / pace.steps - pace.halve_after
    # a share on a border must not fall short of it by rounding
    halvings = 0 if share < -ROUNDING else 1 + math.floor(share / pace.halve_every + ROUNDING)
    return constant(step, pace) * 0.5**halvings


SCHEDULES: Mapping[str, Callable[[int, Pace], float]] = {
    "noam": noam,
    "inverse_square_root": inverse_square_root,
    "cosine": cosine,
    "constant": constant,
    "halving": halving,
}
