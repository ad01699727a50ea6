"""Arranging: a model's weights stored so that the few rows of a search are multiplied fast.

A product of a few rows with a large matrix takes as long as the matrix takes to be read, and the
CPU's kernels read it fastest when it lies column by column. The numbers stay the same, and so does
the model, whose output layer no longer shares its table with an embedding.
"""

import copy
from typing import TypeVar

import torch
from torch import nn

from regard.attention import FULL
from regard.attention.links import NO_RELATION

Model = TypeVar("Model", bound=nn.Module)


@torch.no_grad()
def arranged(model: Model) -> Model:
    """The same model for writing on the CPU; only its linear layers' weights are copied."""
    shared = [*model.parameters(), *model.buffers(), NO_RELATION, FULL]
    ours = copy.deepcopy(model, {id(part): part for part in shared}).eval()
    for part in ours.modules():
        if isinstance(part, nn.Linear):
            columns = part.weight.t().contiguous().t()
            part.weight = nn.Parameter(columns, requires_grad=False)
    return ours
