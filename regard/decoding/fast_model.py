"""The door to what makes decoding quick: a model in the form in which searches step it fastest.

On a CPU that is a copy of quicker parts (`regard.decoding.cpu`), which computes the same function;
on any other device the model itself. On a GPU `Replaying` records the steps of a beam search
(`regard.decoding.gpu`).
"""

from typing import TypeVar

import torch
from torch import nn

from regard.decoding.cpu.layout import cpu_copy

M = TypeVar("M", bound=nn.Module)


def fast_model(model: M, device: torch.device) -> M:
    """The model for decoding on a device; a copy shares its weights and runs no hooks."""
    model = model.to(device)
    return cpu_copy(model) if device.type == "cpu" else model
