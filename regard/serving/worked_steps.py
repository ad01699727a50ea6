"""The worked example with the reader's numbers: every step, by `attend`, in double precision.

    Q = X W_Q,  K = Y W_K,  V = Y W_V              one of each for every head
    S = Q Kᵀ  (/ √d)  / temperature                then masked
    A = softmax(S),  C = A V,  out = [C₁ … C_h] W_O

With the inputs of `regard.inspecting.lessons` and identity matrices, these are the numbers
of `regard explain`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention import FULL, attend
from regard.attention.links import Pattern, Score
from regard.attention.patterns.causal import CausalPattern
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.errors import SettingError, ShapeError
from regard.inspecting.lessons import WORDS, WORDS_ZH, worked
from regard.serving.schemas import WorkedExampleRequest, WorkedHead

Rows = Sequence[Sequence[float]]

UNIT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
FIRST_TWO = ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
LAST_TWO = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
JOINED = ((1.0, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 1.0))
"""Both heads see the second number of an input, so the output takes half from each."""

HEADS: Mapping[int, tuple[tuple[Rows, ...], Rows]] = {
    1: ((UNIT,), UNIT),
    2: ((FIRST_TWO, LAST_TWO), JOINED),
}
"""The initial matrices for each number of heads; W_Q, W_K and W_V of a head are equal."""


def start() -> dict[str, object]:
    """The page's initial state: words, inputs, matrices, and the steps as Python prints them."""
    steps: dict[str, Any] = worked()
    return {
        "words": list(WORDS),
        "other_words": list(WORDS_ZH),
        "inputs": steps["inputs"],
        "other_inputs": steps["cross"]["inputs"],
        "heads": {
            str(count): {"projections": matrices, "W_O": joined}
            for count, (matrices, joined) in HEADS.items()
        },
        "steps": steps,
    }


def worked_steps(request: WorkedExampleRequest) -> dict[str, object]:
    """Every step with these numbers."""
    x, y = _matrix("queries", request.queries), _matrix("keys", request.keys)
    heads = [_head(number, one, x, y, request) for number, one in enumerate(request.heads, 1)]
    joined = torch.cat([head["context"] for head in heads], dim=-1)
    out = _times("W_O", joined, _matrix("W_O", request.W_O))
    steps = [out, *(step for head in heads for step in head.values())]
    if not all(bool(step.isfinite().all()) for step in steps):
        raise SettingError(
            "worked: these numbers lead to some that are too large to compute with. Take smaller "
            "ones, or a temperature nearer to 1."
        )
    plain = [{name: step.tolist() for name, step in head.items()} for head in heads]
    return {"heads": plain, "joined": joined.tolist(), "out": out.tolist()}


def _head(
    number: int, one: WorkedHead, x: Tensor, y: Tensor, request: WorkedExampleRequest
) -> dict[str, Tensor]:
    query, key, value = (
        _times(f"{name} of head {number}", given, _matrix(name, matrix))
        for name, given, matrix in (("W_Q", x, one.W_Q), ("W_K", y, one.W_K), ("W_V", y, one.W_V))
    )
    score: Score = ScaledDotScore() if request.is_scaled else DotScore()
    mask: Pattern = CausalPattern() if request.is_causal else FULL
    # scores are linear in the query, so dividing the query by the temperature is the same
    tempered = query / request.temperature
    attended = attend(tempered, key, value, mask, score=score)
    return {
        "query": query,
        "key": key,
        "value": value,
        "products": DotScore()(query, key),
        "scores": score(tempered, key),
        "weights": attended.map.dense(),
        "context": attended.context,
    }


def _matrix(name: str, rows: Rows) -> Tensor:
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise ShapeError(
            f"worked: {name} must be rows of one length, got lengths {sorted(widths)}."
        )
    return torch.tensor([list(row) for row in rows], dtype=torch.float64)


def _times(name: str, left: Tensor, right: Tensor) -> Tensor:
    if left.shape[-1] != right.shape[0]:
        raise ShapeError(
            f"worked: {name} must have {left.shape[-1]} rows, one for each number that it is "
            f"applied to, got {right.shape[0]}."
        )
    return left @ right
