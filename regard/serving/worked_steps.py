"""The worked example with numbers of one's own: every step of it, by `attend`, in double precision.

    Q = X W_Q,  K = Y W_K,  V = Y W_V              one of each for every head
    S = Q Kᵀ  (/ √d)  / temperature                then masked
    A = softmax(S),  C = A V,  out = [C₁ … C_h] W_O

With the inputs of `regard.inspecting.worked_example` and matrices that change nothing, these are
the numbers of `regard explain`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.attention import FULL, attend
from regard.attention.links import Pattern, Score
from regard.attention.patterns.causal import CausalPattern
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.errors import SettingError, ShapeError
from regard.inspecting.worked_example import WORDS, WORDS_ZH, worked

Matrix = Sequence[Sequence[float]]

SCORES: Mapping[bool, Score] = {False: DotScore(), True: ScaledDotScore()}
MASKS: Mapping[bool, Pattern] = {False: FULL, True: CausalPattern()}
UNIT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
FIRST_TWO = ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
LAST_TWO = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
JOINED = ((1.0, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 1.0))
"""The second number of an input is seen by both heads, so the output takes half from each."""
MOST_ROWS = 24
"""Words, at most: as many as a head of a run is loaded with."""


@final
@dataclass(frozen=True)
class Projections:
    """The matrices of one head."""

    W_Q: Matrix
    W_K: Matrix
    W_V: Matrix


@final
@dataclass(frozen=True)
class Wished:
    """Everything that can be changed."""

    queries: Matrix
    keys: Matrix
    heads: Sequence[Projections]
    W_O: Matrix
    is_scaled: bool = False
    is_causal: bool = False
    temperature: float | int = 1.0


HEADS: Mapping[int, tuple[tuple[Matrix, ...], Matrix]] = {
    1: ((UNIT,), UNIT),
    2: ((FIRST_TWO, LAST_TWO), JOINED),
}
"""For each number of heads the matrices to start with; W_Q, W_K and W_V of a head are alike."""


def start() -> dict[str, object]:
    """What the page starts with: words, inputs, matrices, and the steps as Python prints them."""
    steps = worked()
    return {
        "words": list(WORDS),
        "other_words": list(WORDS_ZH),
        "inputs": steps["inputs"],
        "other_inputs": _part(steps["cross"], "inputs"),
        "heads": {
            str(count): {"projections": [list(map(list, one)) for one in ones],
                         "W_O": list(map(list, joined))}
            for count, (ones, joined) in HEADS.items()
        },
        "steps": steps,
    }  # fmt: skip


def worked_steps(wished: Wished) -> dict[str, object]:
    """Every step with these numbers."""
    if wished.temperature <= 0:
        raise SettingError(
            f"worked: the temperature must be above 0, got {wished.temperature}. Take 1 to leave "
            "the scores as they are."
        )
    if max(len(wished.queries), len(wished.keys)) > MOST_ROWS:
        raise ShapeError(f"worked: at most {MOST_ROWS} words, so that every number can be read.")
    x, y = _matrix("queries", wished.queries), _matrix("keys", wished.keys)
    heads = [_head(number, one, x, y, wished) for number, one in enumerate(wished.heads, 1)]
    joined = torch.cat([head["context"] for head in heads], dim=-1)
    out = _times("W_O", joined, _matrix("W_O", wished.W_O))
    steps = [out, *(step for head in heads for step in head.values())]
    if not all(bool(step.isfinite().all()) for step in steps):
        raise SettingError(
            "worked: these numbers lead to some that are too large to compute with. Take smaller "
            "ones, or a temperature nearer to 1."
        )
    plain = [{name: step.tolist() for name, step in head.items()} for head in heads]
    return {"heads": plain, "joined": joined.tolist(), "out": out.tolist()}


def _head(number: int, one: Projections, x: Tensor, y: Tensor, wished: Wished) -> dict[str, Tensor]:
    query, key, value = (
        _times(f"{name} of head {number}", given, _matrix(name, matrix))
        for name, given, matrix in (("W_Q", x, one.W_Q), ("W_K", y, one.W_K), ("W_V", y, one.W_V))
    )
    score, mask = SCORES[wished.is_scaled], MASKS[wished.is_causal]
    # scores are linear in the query, so a temperature may as well divide it
    attended = attend(query / wished.temperature, key, value, mask, score=score)
    return {
        "query": query,
        "key": key,
        "value": value,
        "products": DotScore()(query, key),
        "scores": score(query / wished.temperature, key),
        "weights": attended.map.dense(),
        "context": attended.context,
    }


def _matrix(name: str, rows: Matrix) -> Tensor:
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


def _part(steps: object, name: str) -> object:
    assert isinstance(steps, dict)
    return steps[name]
