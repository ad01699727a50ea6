"""Length penalties: divisors of log-probabilities, so that short answers have no advantage.

    none:     1
    GNMT:     ((5 + n) / 6)^alpha
    average:  n

with n the number of tokens written, the end token included. None falls as n grows, so that a search
can bound the score of an unfinished answer.

Paper: Wu et al. 2016 (GNMT), equation 14; Vaswani et al. 2017 take alpha = 0.6.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar, final, runtime_checkable

from torch import Tensor

from regard.errors import SettingError

DEFAULT_ALPHA = 0.6
"""The Transformer paper's exponent."""

Number = TypeVar("Number", float, Tensor)


@runtime_checkable
class LengthPenalty(Protocol):
    """The interface of length penalties."""

    def divisor(self, length: Number) -> Number:
        """At least 1, and no less for a longer answer."""


@final
@dataclass(frozen=True)
class NoPenalty:
    """Log-probabilities as they are."""

    def divisor(self, length: Number) -> Number:
        """1 for every length."""
        return length * 0 + 1


@final
@dataclass(frozen=True)
class GnmtPenalty:
    """GNMT's, which the Transformer paper takes; alpha 0 is no penalty, 1 nearly the average."""

    alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 2.0:
            raise SettingError(f"length penalty: alpha must lie in [0, 2], got {self.alpha}.")

    def divisor(self, length: Number) -> Number:
        """((5 + n) / 6)^alpha."""
        return ((5.0 + length) / 6.0) ** self.alpha


@final
@dataclass(frozen=True)
class AveragePenalty:
    """The mean log-probability of a token."""

    def divisor(self, length: Number) -> Number:
        """The length itself."""
        return length * 1.0
