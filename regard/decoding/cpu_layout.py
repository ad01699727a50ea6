"""Arranging: a model's weights stored so that the few rows of a search are multiplied fast."""

import copy
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard.decoding.packed_linear import PackedLinear, can_pack
from regard.decoding.quick_layer import QuickLayer, can_be_quick
from regard.decoding.tabled_positions import TabledPositions
from regard.layers import DecoderLayer
from regard.positions import SinusoidalPositions

M = TypeVar("M", bound=nn.Module)

QUICKER: tuple[tuple[type[nn.Module], Callable[[Any], bool], Callable[[Any], nn.Module]], ...] = (
    (nn.Linear, can_pack, PackedLinear),
    (DecoderLayer, can_be_quick, QuickLayer),
    (SinusoidalPositions, lambda one: True, TabledPositions),
)
"""Parts that have a quicker form: their kind, whether this one has it, and what takes its place."""


@runtime_checkable
class Arranges(Protocol):
    """A part of a model that writes with fewer products once its weights are arranged."""

    def arrange(self) -> None:
        """Lay weights that read the same numbers side by side; the part no longer learns."""


@torch.no_grad()
def arranged(model: M) -> M:
    """The same model for writing on the CPU; only its linear layers' weights are copied."""
    shared = [*model.parameters(), *model.buffers()]
    ours = copy.deepcopy(model, {id(part): part for part in shared}).eval()
    for part in list(ours.modules()):
        if isinstance(part, Arranges):
            part.arrange()
    for part in list(ours.modules()):
        for name, child in list(part.named_children()):
            for kind, fits, quicker in QUICKER:
                if isinstance(child, kind) and fits(child):
                    setattr(part, name, quicker(child))
    direct = {kind: _called_directly(kind) for kind in {type(part) for part in ours.modules()}}
    for part in ours.modules():
        # at hand as plain attributes: a module searches for its parts, hundreds of times a step
        part.__dict__.update({**part._parameters, **part._modules})
        part.__class__ = direct[type(part)]
    return ours


def _called_directly(kind: type[nn.Module]) -> type[nn.Module]:
    """The same class; a call no longer asks who listens, which takes as long as a small product."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward})
