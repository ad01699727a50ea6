"""CPU layout: a copy of a model whose weights lie as the few rows of a search read them fast."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard.decoding.cpu.packed_linear import PackedLinear, can_pack
from regard.decoding.cpu.quick_layer import QuickLayer, can_be_quick
from regard.decoding.cpu.tabled_positions import TabledPositions
from regard.layers import DecoderLayer
from regard.positions import SinusoidalPositions

M = TypeVar("M", bound=nn.Module)

QUICKER: tuple[tuple[type[nn.Module], Callable[[Any], bool], Any], ...] = (
    (nn.Linear, can_pack, PackedLinear),
    (DecoderLayer, can_be_quick, QuickLayer),
    (SinusoidalPositions, lambda part: True, TabledPositions),
)
"""Parts that have a quicker form: their class, whether this part has the form, and the form."""


@runtime_checkable
class Arranges(Protocol):
    """A part of a model that writes with fewer products once its weights are arranged."""

    def arrange(self) -> None:
        """Lay weights that read the same numbers side by side; the part no longer learns."""


@torch.no_grad()
def cpu_copy(model: M) -> M:
    """The same model for decoding on the CPU; only its linear layers' weights are copied."""
    ours = _without_hooks(model).eval()
    for part in list(ours.modules()):
        if isinstance(part, Arranges):
            part.arrange()
    for part in list(ours.modules()):
        for name, child in list(part.named_children()):
            for kind, fits, quicker in QUICKER:
                if isinstance(child, kind) and fits(child):
                    setattr(part, name, _called_directly(quicker)(child))
    for part in ours.modules():
        # plain attributes: a module searches its tables of parts, hundreds of times a step
        part.__dict__.update({**part._parameters, **part._modules})
    return ours


def _without_hooks(model: M) -> M:
    """A copy that shares all weights, and whose calls go to `forward` past every hook."""
    parts = list(model.modules())
    copies: dict[int, Any] = {id(one): one for one in (*model.parameters(), *model.buffers())}
    for part in parts:
        whole: Any = type(part)
        kind = _called_directly(whole)
        copies[id(part)] = kind.__new__(kind)
    for part in parts:
        # what a copied state says of another part becomes that part's copy
        copies[id(part)].__setstate__(copy.deepcopy(part.__getstate__(), copies))
    ours: M = copies[id(model)]
    return ours


@cache
def _called_directly(kind: Any) -> Any:
    """The same class; asking for hooks at each call takes as long as a small product."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward})
