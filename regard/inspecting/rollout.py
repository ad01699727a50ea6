"""Rollout and flow: how much of each input is still in an output after all layers.

    rollout   R_0 = I,  R_l = N_l R_{l−1},  N_l = r I + (1 − r) A_l with rows that sum to one
    flow      the most that fits from an output down to an input, N_l being how wide each pipe is
    answers   C = N_l C after a decoder's own layer;  r C + (1 − r) [A_cross R_source | 0] after
              its look at the source: every row is a share of the source and of what was written

A_l is the mean (or the largest) over a layer's heads, r the share of the residual. Both take the
weights for all there is between two layers: what the feed-forward parts do is not in them.

Paper: Abnar & Zuidema 2020.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import LengthError, SettingError
from regard.inspecting.maximum_flow import maximum_flow
from regard.inspecting.record import Record

LONGEST = 2048
"""The most places that are rolled out."""
LONGEST_FLOW = 60
"""The most places for which flows are sought."""

HEADS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(0),
    "max": lambda weights: weights.amax(0),
}
"""How the heads of a layer become one."""


class Shares(NamedTuple):
    """Where each output of a decoder comes from; the two parts of a row sum to one."""

    source: Float[Tensor, "q s"]
    target: Float[Tensor, "q t"]
    """What was written before, the begin token first."""

    @property
    def from_source(self) -> Float[Tensor, " q"]:
        """How much of each output comes from the source."""
        return self.source.sum(-1)


def rollout(
    record: Record, kind: str, *, residual: float = 0.5, heads: str = "mean"
) -> Float[Tensor, "q k"]:
    """Follow one kind of self-attention through all its layers.

    Args:
        record: what to follow.
        kind: such as "encoder" or "decoder".
        residual: the share of a layer's input that goes past it, from 0 to 1.
        heads: how the heads of a layer become one, "mean" or "max".
    """
    whole = torch.eye(len(record.attention[kind].queries) if kind in record.attention else 0)
    for step in _steps(record, kind, residual, heads, LONGEST):
        whole = step @ whole
    return whole


def answer_rollout(record: Record, *, residual: float = 0.5, heads: str = "mean") -> Shares:
    """Follow an answer back through decoder, cross-attention and encoder.

    Args:
        record: with "decoder" and "cross" attention; without "encoder" the states of the source
            stand for its words.
        residual: the share of a layer's input that goes past it, from 0 to 1.
        heads: how the heads of a layer become one, "mean" or "max".
    """
    cross = [_normal(one) for one in _layers(record, "cross", heads, LONGEST)]
    own = _steps(record, "decoder", residual, heads, LONGEST)
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
    """The largest flow from one output to each input; for at most 60 places.

    Args:
        record: what to follow.
        kind: such as "encoder" or "decoder".
        query: the output, from 0.
        residual: the share of a layer's input that goes past it, from 0 to 1.
        heads: how the heads of a layer become one, "mean" or "max".
    """
    steps = _steps(record, kind, residual, heads, LONGEST_FLOW)
    pipes = [step.double().numpy() for step in reversed(steps)]
    if not 0 <= query < len(pipes[0]):
        raise SettingError(
            f"flow: there is no query {query}; there are {len(pipes[0])}, counted from 0."
        )
    return torch.tensor([maximum_flow(pipes, query, key) for key in range(len(pipes[0]))]).float()


def _steps(
    record: Record, kind: str, residual: float, heads: str, longest: int
) -> list[Float[Tensor, "n n"]]:
    """What each layer does to what comes in, the first layer first."""
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
    """Rows that sum to one; a row of nothing stays one."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
