"""Fast model: gives a model in the form in which searches step it fastest.

On a CPU that is a copy with faster parts (`regard.decoding.cpu`), which computes the same function;
on any other device the model itself. On a GPU a loaded run replays recordings of its searches
(`regard.decoding.gpu.recordings`).
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

from regard.decoding.cpu.packed_linear import PackedLinear, can_pack
from regard.decoding.cpu.quick_layer import QuickLayer, can_be_quick
from regard.decoding.cpu.tabled_positions import TabledPositions
from regard.layers import BranchedDecoderLayer, DecoderLayer, EncoderLayer
from regard.positions import SinusoidalPositions

M = TypeVar("M", bound=nn.Module)

QUICKER: tuple[tuple[type[nn.Module], Callable[[Any], bool], Any], ...] = (
    (nn.Linear, can_pack, PackedLinear),
    (DecoderLayer, can_be_quick, QuickLayer),
    (SinusoidalPositions, lambda part: True, TabledPositions),
)
"""Parts with a faster form: their class, whether a part can have the form, and the form."""


@torch.no_grad()
def fast_model(model: M, device: torch.device) -> M:
    """The model for decoding on a device; the copy for a CPU shares weights and runs no hooks."""
    model = model.to(device)
    if device.type != "cpu":
        return model
    ours = _without_hooks(model).eval()
    for part in list(ours.modules()):
        if isinstance(part, EncoderLayer | DecoderLayer | BranchedDecoderLayer):
            # the query, key and value of self-attention in one product
            part.attention.stack()
    for part in list(ours.modules()):
        for name, child in list(part.named_children()):
            for kind, fits, quicker in QUICKER:
                if isinstance(child, kind) and fits(child):
                    setattr(part, name, _called_directly(quicker)(child))
    for part in ours.modules():
        # plain attributes: lookup in a module's tables would run hundreds of times a step
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
        # a reference to another part becomes a reference to its copy
        copies[id(part)].__setstate__(copy.deepcopy(part.__getstate__(), copies))
    ours: M = copies[id(model)]
    return ours


@cache
def _called_directly(kind: Any) -> Any:
    """A subclass whose calls skip hooks; checking for hooks takes as long as a small product."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward})
