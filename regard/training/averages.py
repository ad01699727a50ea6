"""Averages of weights: one that moves along while training, one over the last checkpoints.

    average ← d · average + (1 − d) · weights,   d = min(decay, (1 + t) / (10 + t)) after update t

The small d of the first updates lets the average forget the random weights it began with.

Paper: Polyak & Juditsky 1992.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.training.checkpoints import read_tensors


@final
class MovingAverage:
    """An exponential moving average of a model's weights.

    Args:
        model: whose weights are averaged; the average stays on its device.
        decay: how much of the average one update keeps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        # a parameter that stands under several names in a model comes once
        self._followed = dict(model.named_parameters())
        self.weights = {name: p.detach().clone() for name, p in self._followed.items()}

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Take in the weights after an update."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in self._followed.items():
            self.weights[name].lerp_(parameter, 1 - decay)

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], where: Path) -> None:
        """Go on from an average that was saved."""
        for name, own in self.weights.items():
            held = tensors.get(name)
            if held is None or (held.shape, held.dtype) != (own.shape, own.dtype):
                raise CheckpointError(f"'{where}': the average of '{name}' is missing, or another.")
            own.copy_(held)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights for a while, and then its own again, to the bit."""
        before = {name: p.detach().clone() for name, p in self._followed.items()}
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(before)

    @torch.no_grad()
    def _put(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._followed.items():
            parameter.copy_(weights[name])


def mean_of(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several files of weights; of equal ones it is the first, bit for bit.

    The sum of equal float32 numbers is exact in float64, so that dividing it gives them back.
    """
    first, *rest = paths
    own = read_tensors(first)
    sums = {name: tensor.double() for name, tensor in own.items()}
    for path in rest:
        held = read_tensors(path)
        for name, total in sums.items():
            total.add_(held[name])
    return {name: (total / len(paths)).to(own[name].dtype) for name, total in sums.items()}
