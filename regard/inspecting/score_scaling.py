"""Why scores are divided by the root of the width: measured, not argued.

Queries and keys of independent numbers with mean 0 and variance 1 have dot products of variance d.
Unscaled, the softmax of such scores is nearly one-hot, and its gradient, whose trace is
1 - sum of squared weights, is nearly nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.links import Score
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore

_SCORES: Mapping[bool, Score] = {False: DotScore(), True: ScaledDotScore()}
"""By whether they are scaled."""


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
        for is_scaled, score in _SCORES.items():
            scores = score(query, key)
            rows.append(_measured(scores, width=width, is_scaled=is_scaled))
    return rows


def _measured(scores: Float[Tensor, "b q k"], *, width: int, is_scaled: bool) -> Saturation:
    weights = scores.softmax(-1)
    return Saturation(
        width=width,
        scaled=is_scaled,
        variance=float(scores.var()),
        largest_weight=float(weights.amax(-1).mean()),
        gradient=float((1 - weights.square().sum(-1)).mean()),
    )
