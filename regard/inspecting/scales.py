"""Scales on which weights are shown: what a number becomes before it becomes a colour.

    linear   a
    sqrt     √a
    log      log₁₀(max(a, floor))
    lift     a · allowed:  1 is what a query that looks everywhere alike gives, whatever the length

At 50,000 keys a uniform weight is 0.00002, so that a linear scale from 0 to 1 is black. Lift means
the same at every length; it is drawn on a logarithmic scale.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float

from regard.choices import find

FLOOR = 1e-7
"""The smallest weight that a logarithmic scale tells from nothing."""

Numbers = Float[np.ndarray, "q k"]
Allowed = Float[np.ndarray, " q"]

SCALES: Mapping[str, Callable[[Numbers, Allowed], Numbers]] = {
    "linear": lambda weights, allowed: weights,
    "sqrt": lambda weights, allowed: np.sqrt(np.maximum(weights, 0.0)),
    "log": lambda weights, allowed: np.log10(np.maximum(weights, FLOOR)),
    "lift": lambda weights, allowed: weights * allowed[:, None],
}


def scaled(weights: Numbers, allowed: Allowed, scale: str) -> Numbers:
    """Weights on a scale.

    >>> scaled(np.full((1, 4), 0.25), np.array([4.0]), "lift").tolist()
    [[1.0, 1.0, 1.0, 1.0]]

    Args:
        weights: a row a query.
        allowed: how many keys each of them may see.
        scale: "linear", "sqrt", "log" or "lift".
    """
    return find(scale, SCALES)(weights, allowed)
