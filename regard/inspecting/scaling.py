"""Why scores are divided by the root of the width: measured, not argued.

Queries and keys of independent numbers with mean 0 and variance 1 have dot products of variance d.
Unscaled, the softmax of such scores is nearly one-hot, and its gradient, whose trace is
1 - sum of squared weights, is nearly nothing.
"""

from dataclasses import dataclass

import torch

from regard.attention.links import Score
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore


@dataclass(frozen=True)
class Saturation:
    """What happens to the softmax of one width's scores."""

    width: int
    scaled: bool
    variance: float
    """Of the scores."""
    largest_weight: float
    """Mean over queries."""
    gradient: float
    """Mean trace of the softmax's Jacobian: 0 means that nothing can be learned."""


def saturation(
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024),
    *,
    n_keys: int = 64,
    n_queries: int = 2000,
    seed: int = 0,
) -> list[Saturation]:
    """Measure each width with and without the scaling, on the same random vectors."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for width in widths:
        query = torch.randn(n_queries, 1, width, generator=generator)
        key = torch.randn(n_queries, n_keys, width, generator=generator)
        for score in (DotScore(), ScaledDotScore()):
            rows.append(_measure(width, query, key, score))
    return rows


def _measure(width: int, query: torch.Tensor, key: torch.Tensor, score: Score) -> Saturation:
    scores = score(query, key)
    weights = scores.softmax(-1)
    return Saturation(
        width=width,
        scaled=isinstance(score, ScaledDotScore),
        variance=float(scores.var()),
        largest_weight=float(weights.amax(-1).mean()),
        gradient=float((1 - weights.square().sum(-1)).mean()),
    )
