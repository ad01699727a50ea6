"""Rollout and flow: how much of each input is still in an output after all layers.

    rollout   R_0 = I,  R_l = N_l R_{l−1},  N_l = r I + (1 − r) A_l with rows that sum to one
    flow      the maximum flow from an output down to an input, with N_l as capacities
    answers   C = N_l C after a decoder's own layer;  r C + (1 − r) [A_cross R_source | 0] after
              its look at the source: every row is a share of the source and of what was written

A_l is the mean (or the largest) over a layer's heads, r the share of the residual. Both
describe a layer by its weights alone: the effect of feed-forward parts is not included.

Paper: Abnar & Zuidema 2020.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import LengthError, SettingError
from regard.inspecting.record import Record

MAX_PLACES = 2048
"""The most places that are rolled out."""
MAX_FLOW_PLACES = 60
"""The most places for which flows are sought."""

MIN_FLOW = 1e-9
"""Smaller flows count as zero."""

HEADS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(0),
    "max": lambda weights: weights.amax(0),
}
"""How the heads of a layer become one."""


class Shares(NamedTuple):
    """Where each output of a decoder comes from; the two parts of a row sum to one."""

    source: Float[Tensor, "q s"]
    target: Float[Tensor, "q t"]
    """The shares of what was written before, the begin token first."""


def rollout(
    record: Record, kind: str, *, residual: float = 0.5, heads: str = "mean"
) -> Float[Tensor, "q k"]:
    """Follow one kind of self-attention, such as "encoder", through all its layers.

    The residual is the share of a layer's input that goes past it, from 0 to 1; `heads` is how the
    heads of a layer become one, "mean" or "max".
    """
    steps = _steps(record, kind, residual, heads, MAX_PLACES)
    whole = torch.eye(len(steps[0]))
    for step in steps:
        whole = step @ whole
    return whole


def answer_rollout(record: Record, *, residual: float = 0.5, heads: str = "mean") -> Shares:
    """Follow an answer back through decoder, cross-attention and encoder, as `rollout` does.

    The record has "decoder" and "cross" attention; without "encoder" the states of the source stand
    for its words.
    """
    cross = [_normal(one) for one in _layers(record, "cross", heads, MAX_PLACES)]
    own = _steps(record, "decoder", residual, heads, MAX_PLACES)
    n_rows, n_source = cross[0].shape
    read = (
        rollout(record, "encoder", residual=residual, heads=heads)
        if "encoder" in record.attention
        else torch.eye(n_source)
    )
    source, target = torch.zeros(n_rows, n_source), torch.eye(n_rows)
    for step, look in zip(own, cross, strict=True):
        source, target = step @ source, step @ target
        source = residual * source + (1 - residual) * (look @ read)
        target = residual * target
    return Shares(source, target)


def flow(
    record: Record, kind: str, query: int, *, residual: float = 0.5, heads: str = "mean"
) -> Float[Tensor, " k"]:
    """The largest flow from one output, counted from 0, to each input; for at most 60 places."""
    steps = _steps(record, kind, residual, heads, MAX_FLOW_PLACES)
    pipes = [step.double().numpy() for step in reversed(steps)]
    if not 0 <= query < len(pipes[0]):
        raise SettingError(
            f"flow: there is no query {query}; there are {len(pipes[0])}, counted from 0."
        )
    return torch.tensor([maximum_flow(pipes, query, key) for key in range(len(pipes[0]))]).float()


def _steps(
    record: Record, kind: str, residual: float, heads: str, longest: int
) -> list[Float[Tensor, "n n"]]:
    """The matrix N_l of each layer, the first layer first."""
    if not 0 <= residual <= 1:
        raise SettingError(f"rollout: residual lies in 0..1, got {residual}.")
    layers = _layers(record, kind, heads, longest)
    if layers[0].shape[0] != layers[0].shape[1]:
        raise SettingError(
            f"rollout: {kind} attention has {layers[0].shape[0]} queries and "
            f"{layers[0].shape[1]} keys; only attention of a sequence to itself can be rolled out. "
            "Take encoder or decoder, or answer_rollout(record)."
        )
    eye = torch.eye(len(layers[0]))
    return [residual * eye + (1 - residual) * _normal(layer) for layer in layers]


def _layers(record: Record, kind: str, heads: str, longest: int) -> list[Float[Tensor, "q k"]]:
    one, join = find(kind, record.attention), find(heads, HEADS)
    size = max(len(one.queries), len(one.keys))
    if size > longest:
        raise LengthError(
            f"rollout: {kind} attention has {size:,} places; at most {longest:,} can be followed "
            "through the layers. Give a shorter text."
        )
    return [join(layer.tile(slice(None), slice(None))[0].float().cpu()) for layer in one.layers]


def _normal(weights: Float[Tensor, "q k"]) -> Float[Tensor, "q k"]:
    """Rows that sum to one; a row of zeros stays zero."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)


def maximum_flow(pipes: Sequence[Float[np.ndarray, "n n"]], start: int, end: int) -> float:
    """The maximum flow from a node of the first layer to one of the last, by Dinic's algorithm.

        value = max Σ f(s, ·)   with 0 <= f <= capacity, and as much out of a node as into it

    >>> maximum_flow([np.array([[0.5, 0.5], [0.0, 1.0]])] * 2, 0, 1)
    1.0

    `pipes[l][i, j]` is the capacity from node i of layer l to node j of the next layer.
    """
    n, sink = len(pipes[0]), len(pipes) * len(pipes[0]) + end
    room: list[dict[int, float]] = [{} for _ in range((len(pipes) + 1) * n)]
    for layer, pipe in enumerate(pipes):
        for i, j in np.argwhere(pipe > MIN_FLOW).tolist():
            here, there = layer * n + i, (layer + 1) * n + j
            if layer + 1 < len(pipes) or there == sink:
                room[here][there], room[there][here] = float(pipe[i, j]), 0.0
    total = 0.0
    while sink in (steps := _steps_from(start, room)):
        onward: list[list[int]] = [[] for _ in room]
        for node, step in steps.items():
            ways = room[node].items()
            onward[node] = [to for to, left in ways if left > MIN_FLOW and steps[to] == step + 1]
        total += _push(room, onward, start, sink, math.inf)
    return total


def _steps_from(start: int, room: Sequence[Mapping[int, float]]) -> dict[int, int]:
    """The distance to each reachable node, in edges with capacity left."""
    steps = {start: 0}
    reached = [start]
    for node in reached:
        for other, left in room[node].items():
            if left > MIN_FLOW and other not in steps:
                steps[other] = steps[node] + 1
                reached.append(other)
    return steps


def _push(
    room: Sequence[dict[int, float]], onward: list[list[int]], node: int, sink: int, most: float
) -> float:
    """Push at most so much from a node to the sink; edges that lead no further are removed."""
    if node == sink:
        return most
    pushed = 0.0
    while onward[node] and most - pushed > MIN_FLOW:
        other = onward[node][-1]
        fits = _push(room, onward, other, sink, min(most - pushed, room[node][other]))
        room[node][other] -= fits
        room[other][node] += fits
        pushed += fits
        if most - pushed > MIN_FLOW:
            onward[node].pop()
    return pushed
