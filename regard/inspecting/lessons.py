"""The lessons of `regard explain`: the worked example, scaled scores, and how far words meet.

**The worked example.** Three words attend to themselves, and to three words of another language.
Every number is computed by `attend`, in double precision; only the inputs are typed in.

**Scaled scores.** Queries and keys of independent numbers with mean 0 and variance 1 have dot
products of variance d. Unscaled, the softmax of such scores is nearly one-hot, and its gradient,
whose trace is 1 - sum of squared weights, is nearly zero.

**Path lengths.** How many layers it takes until two words meet:

    two words D apart meet after ceil(D / r) layers,   r = (k - 1) / 2 (symmetric), k - 1 (causal)
    L layers see 1 + L (k - 1) words;   dilated 1, 2, 4, …: r (2^L - 1) >= D, 1 + (k - 1)(2^L - 1)

Two words meet where the output at one of them depends on the other. Counts are exact for the
farthest pair, `length - 1` positions apart; costs are multiply-adds of one layer without its output
projections.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention import attend
from regard.attention.links import Score
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.errors import SettingError
from regard.models.convolutional.spec import DILATIONS

WORDS = ("I", "am", "good")
WORDS_ZH = ("我", "很", "好")

X = ((1.0, 3.0, 2.0), (1.0, 1.0, 3.0), (1.0, 2.0, 1.0))
Y = ((2.0, 0.0, 2.0), (1.0, 1.0, 2.0), (5 / 3, 4 / 3, 2 / 3))

SCORES: Mapping[bool, Score] = {False: DotScore(), True: ScaledDotScore()}
"""The scores, by whether they are scaled."""


def worked() -> dict[str, object]:
    """Every step of the example.

    >>> worked()["scores"]
    [[14.0, 10.0, 9.0], [10.0, 11.0, 6.0], [9.0, 6.0, 6.0]]
    """
    x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)
    return {
        "words": list(WORDS),
        "inputs": x.tolist(),
        **_steps(x, x, DotScore()),
        "scaled": _steps(x, x, ScaledDotScore()),
        "cross": {"words": list(WORDS_ZH), "inputs": y.tolist(), **_steps(x, y, DotScore())},
    }


def _steps(query: Tensor, key: Tensor, score: Score) -> dict[str, list[list[float]]]:
    attended = attend(query, key, key, score=score)
    return {
        "scores": score(query, key).tolist(),
        "weights": attended.map.dense().tolist(),
        "context": attended.context.tolist(),
    }


@dataclass(frozen=True)
class Saturation:
    """The saturation of the softmax over one width's scores."""

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
        for is_scaled, score in SCORES.items():
            scores = score(query, key)
            weights = scores.softmax(-1)
            largest = float(weights.amax(-1).mean())
            gradient = float((1 - weights.square().sum(-1)).mean())
            rows.append(Saturation(width, is_scaled, float(scores.var()), largest, gradient))
    return rows


@dataclass(frozen=True)
class Meeting:
    """The layers, operations and cost until the first word meets the last."""

    name: str
    layers: int
    """Layers until the output at one of the two depends on the other."""
    receptive_field: int | None
    """Words that an output of that many layers depends on, in a text without end; None for all."""
    steps: int
    """Operations that must wait for each other, over those layers."""
    path: int
    """Operations a signal passes through on its way."""
    multiply_adds: int
    """Of one layer."""
    formula: str


def meetings(length: int = 50, window: int = 5, width: int = 512) -> list[Meeting]:
    """Compare recurrence, convolutions and attention at this length and width."""
    if length < 2 or window < 2 or width < 1:
        raise SettingError(
            "paths: expected length and window of at least 2 and width of at least 1, "
            f"got {length}, {window} and {width}."
        )
    n, k, d, far = length, window, width, length - 1
    near = -(-far // k)
    seen, costs = 1 + 2 * k * near, (n * d * d, 2 * n * (2 * k + 1) * d, 2 * n * n * d)
    return [
        Meeting("recurrence", 1, None, n, far, costs[0], "n d²"),
        _convolution("convolution", "constant", k // 2, n, k, d),
        _convolution("causal convolution", "constant", k - 1, n, k, d),
        _convolution("dilated convolution", "doubling", k // 2, n, k, d),
        _convolution("causal dilated convolution", "doubling", k - 1, n, k, d),
        Meeting(f"attention within ±{k}", near, seen, near, near, costs[1], "2 n (2k+1) d"),
        Meeting("attention", 1, None, 1, 1, costs[2], "2 n² d"),
    ]


def _convolution(name: str, dilations: str, reach: int, n: int, k: int, d: int) -> Meeting:
    """Layers of windows; `reach` is the number of neighbours on a window's longer side."""
    grows = DILATIONS[dilations]
    layers = grows.layers_to_meet(n - 1, reach)
    seen = 1 + (k - 1) * grows.total(layers)
    return Meeting(f"{name}, window {k}", layers, seen, layers, layers, k * n * d * d, "k n d²")
