"""Experts spec: the mixture of feed-forwards of a language model, the section [model.experts]."""

import math
from dataclasses import dataclass

from regard.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class ExpertsSpec:
    """A mixture of feed-forwards among which a gate chooses for each token."""

    count: int = 16
    """Feed-forwards in a layer; each has the inner width of the single one."""
    used: int = 2
    """How many of them a token is sent to."""
    layers: tuple[int, ...] = ()
    """The layers that have them, counted from 1; every layer unless given."""
    balance: float = 0.01
    """Weight of the load-balancing loss, per token."""

    def __post_init__(self) -> None:
        if not 1 <= self.used <= self.count:
            raise SettingError(
                f"model.experts: used must lie between 1 and count ({self.count}), got {self.used}."
            )
        if not 0 <= self.balance < math.inf:
            raise SettingError(
                f"model.experts: balance must be a finite number of at least 0, got {self.balance}."
            )
        if any(layer < 1 for layer in self.layers):
            raise SettingError(f"model.experts: layers count from 1, got {min(self.layers)}.")
