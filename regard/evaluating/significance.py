"""Two significance tests of a score difference; they give p-values and apply no threshold.

Paired bootstrap: draw as many sentences as there are, with replacement, the same for both systems,
and score both again. The spread of the differences gives the interval; its share on the other side
of zero is how often the second system would lose. The p-value centres the differences on zero,
as if the systems were equal, and is the share of samples that reach the observed difference.

Approximate randomisation: if the systems were equal, their outputs could be swapped. Swap them
at random for each sentence; p is how often the swapped systems differ as much as the real ones.

    p = (1 + #{|d*| ≥ |d|}) / (1 + samples)

Both p-values are two-sided, and 1 for a system against itself. sacreBLEU's own tests give neither
these nor an interval of the difference, so this file computes both from sacreBLEU's counts.

Paper: Koehn 2004; Riezler & Maxwell 2005. Cost: the counts are summed, texts are read once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.errors import SettingError, ShapeError
from regard.evaluating.score import MeasuredScore, Statistics

MAX_TIE = 1e-9
"""Differences closer than this count as equal: the order of a sum may change the last bit."""


@dataclass(frozen=True)
class Resampling:
    """Numbers of samples and the seed; equal settings give equal results."""

    samples: int = 1000
    trials: int = 10_000
    seed: int = 1
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.samples < 1 or self.trials < 1:
            raise SettingError(
                f"significance: samples and trials must be at least 1, got {self.samples} and "
                f"{self.trials}."
            )
        if self.seed < 0:
            raise SettingError(f"significance: seed must be at least 0, got {self.seed}.")
        if not 0 < self.confidence < 1:
            raise SettingError(
                f"significance: confidence must lie between 0 and 1, got {self.confidence}."
            )


@dataclass(frozen=True)
class Interval:
    """The interval of a score at the chosen confidence."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}"


@dataclass(frozen=True)
class Difference:
    """The difference of the second system from the first, its interval and its p-values."""

    name: str
    value: float
    """The second score minus the first."""
    interval: Interval
    p_bootstrap: float
    p_randomisation: float
    wins: float
    """The share of bootstrap samples in which the second is better (Koehn's number)."""
    is_better: bool
    """Whether the second is better on the real sentences."""


DEFAULT = Resampling()


def score_interval(measured: MeasuredScore, how: Resampling = DEFAULT) -> Interval:
    """The bootstrap interval of one system's score."""
    drawn = [measured.value(weights @ measured.rows) for weights in _draws(measured.rows, how)]
    return _interval(np.array(drawn), how)


def compare_pair(
    first: MeasuredScore, second: MeasuredScore, how: Resampling = DEFAULT
) -> Difference:
    """Test the second system against the first, the baseline, by both tests."""
    if first.score.name != second.score.name or first.rows.shape != second.rows.shape:
        raise ShapeError(
            f"compare_pair: expected one measure on the same sentences, got {first.score.name} on "
            f"{len(first.rows)} and {second.score.name} on {len(second.rows)}."
        )
    value = second.value(second.rows.sum(axis=0)) - first.value(first.rows.sum(axis=0))
    drawn = np.array(
        [
            second.value(weights @ second.rows) - first.value(weights @ first.rows)
            for weights in _draws(first.rows, how)
        ]
    )
    sign = 1 if first.is_higher_better else -1
    return Difference(
        name=first.score.name,
        value=value,
        interval=_interval(drawn, how),
        p_bootstrap=_p_value(drawn - drawn.mean(), value),
        p_randomisation=_p_value(np.array(list(_swapped(first, second, how))), value),
        wins=float((sign * drawn > MAX_TIE).mean()),
        is_better=sign * value > MAX_TIE,
    )


def _draws(rows: Statistics, how: Resampling) -> Iterator[Statistics]:
    """How often each sentence is drawn; with one seed all measures use the same draws."""
    chance = np.random.default_rng(how.seed)
    count = len(rows)
    for _ in range(how.samples):
        drawn = np.bincount(chance.integers(count, size=count), minlength=count)
        yield drawn.astype(np.float64)


def _swapped(first: MeasuredScore, second: MeasuredScore, how: Resampling) -> Iterator[float]:
    chance = np.random.default_rng(how.seed)
    apart = second.rows - first.rows
    totals = first.rows.sum(axis=0), second.rows.sum(axis=0)
    for _ in range(how.trials):
        moved = (chance.random(len(apart)) < 0.5).astype(np.float64) @ apart
        yield second.value(totals[1] - moved) - first.value(totals[0] + moved)


def _p_value(differences: Statistics, value: float) -> float:
    reached = int((np.abs(differences) >= abs(value) - MAX_TIE).sum())
    return (1 + reached) / (1 + len(differences))


def _interval(drawn: Statistics, how: Resampling) -> Interval:
    tail = (1 - how.confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high))
