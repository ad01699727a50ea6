"""The worked example: three words attend to themselves, and to three words of another language.

Every number is computed by `attend`, in double precision; nothing is typed in but the inputs.
"""

import torch
from torch import Tensor

from regard.attention import attend
from regard.attention.links import Score
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore

WORDS = ("I", "am", "good")
WORDS_ZH = ("我", "很", "好")

X = ((1.0, 3.0, 2.0), (1.0, 1.0, 3.0), (1.0, 2.0, 1.0))
Y = ((2.0, 0.0, 2.0), (1.0, 1.0, 2.0), (5 / 3, 4 / 3, 2 / 3))


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
