"""Averages of weights: a moving average in training, and a mean of the last checkpoints.

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
    """An exponential moving average of a model's weights, on its device; updates keep `decay`."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        # a parameter with several names in a model is averaged once
        self._followed = dict(model.named_parameters())
        self.weights = {name: p.detach().clone() for name, p in self._followed.items()}

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Update the average with the weights after an update."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in self._followed.items():
            self.weights[name].lerp_(parameter, 1 - decay)

    @torch.no_grad()
    def load(self, path: Path) -> None:
        """Load an average that was saved."""
        saved = read_tensors(path)
        for name, own in self.weights.items():
            one = saved.get(name)
            if one is None or (one.shape, one.dtype) != (own.shape, own.dtype):
                raise CheckpointError(f"'{path}': the average of '{name}' is missing, or another.")
            own.copy_(one)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the model has the averaged weights; it restores the model's own."""
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
    """The mean of several files of weights; of equal ones it is the first, bit for bit."""
    # the sum of equal float32 numbers is exact in float64, so that dividing it gives them back
    own = read_tensors(paths[0])
    sums = {name: tensor.double() for name, tensor in own.items()}
    for path in paths[1:]:
        for name, tensor in read_tensors(path).items():
            sums[name].add_(tensor)
    return {name: (total / len(paths)).to(own[name].dtype) for name, total in sums.items()}
