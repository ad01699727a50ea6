"""Arranging: a model's weights stored so that the few rows of a search are multiplied fast."""

import copy
from typing import TypeVar

import torch
from torch import nn

from regard.attention import FULL
from regard.attention.links import NO_RELATION
from regard.decoding.packed_linear import PackedLinear, can_pack

M = TypeVar("M", bound=nn.Module)


@torch.no_grad()
def arranged(model: M) -> M:
    """The same model for writing on the CPU; only its linear layers' weights are copied."""
    shared = [*model.parameters(), *model.buffers(), NO_RELATION, FULL]
    ours = copy.deepcopy(model, {id(part): part for part in shared}).eval()
    for part in list(ours.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear) and can_pack(child):
                setattr(part, name, PackedLinear(child))
    return ours
