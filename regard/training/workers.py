"""Workers: the processes of one training, started by torchrun; as a rule there is one.

Every worker holds the whole model and learns from its share of each update. Gradients are summed
once an update; then all workers take the same step. The first one writes files and has events.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as distributed
from torch import Tensor, nn

from regard.errors import RunError

Rows = np.ndarray
MANY_GPUS = ("cuda", "xpu")
"""The kinds of GPU of which a machine may have several, each with a process."""
MAX_WAIT = timedelta(days=1)
"""Timeout of waiting for a worker: the first may prepare a corpus, or validate, for hours."""


@dataclass(frozen=True)
class Workers:
    """One process among the `count` of a training; `rank` is its number, from 0."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """The device on which they exchange numbers."""

    @property
    def is_first(self) -> bool:
        """Whether this one writes files and has events."""
        return self.rank == 0

    def seed(self, seed: int, rank: int | None = None) -> int:
        """A worker's seed for dropout: each has another, and the first has the recipe's."""
        return seed + 1_000_003 * (self.rank if rank is None else rank)

    def share(self, batches: Sequence[Rows]) -> list[Rows]:
        """This worker's part of an update; with too few batches for all, the largest are cut."""
        parts = list(batches)
        while len(parts) < self.count and max(len(part) for part in parts) > 1:
            largest = max(range(len(parts)), key=lambda i: len(parts[i]))
            parts[largest : largest + 1] = np.array_split(parts[largest], 2)
        return parts[self.rank :: self.count]

    def sum_gradients(self, model: nn.Module) -> None:
        """Give every worker the sum of all workers' gradients."""
        if self.count == 1:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        for parameter in parameters:
            # a worker without a batch adds zeros
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        together = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        distributed.all_reduce(together)
        parts = together.split([p.numel() for p in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def sums(self, *numbers: Tensor | float | int) -> Sequence[Tensor | float | int]:
        """Each number, summed over all workers; a single one does not wait for the GPU."""
        if self.count == 1:
            return list(numbers)
        together = torch.tensor([float(number) for number in numbers], dtype=torch.float64)
        together = together.to(self.device)
        distributed.all_reduce(together)
        return together.tolist()

    def any_of(self, *flags: bool) -> list[bool]:
        """For each flag, whether any worker has set it."""
        return [bool(total > 0) for total in self.sums(*map(int, flags))]

    def gathered(self, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Every worker's tensors of bytes, under names of their own; the first keeps its names."""
        if self.count == 1:
            return dict(states)
        everyone: dict[str, Tensor] = {}
        for name, state in states.items():
            own = state.to(self.device)
            all_of = [torch.empty_like(own) for _ in range(self.count)]
            distributed.all_gather(all_of, own)
            everyone |= {name + _suffix(rank): one.cpu() for rank, one in enumerate(all_of)}
        return everyone

    @property
    def suffix(self) -> str:
        """The suffix of this worker's tensor names in the file of all workers."""
        return _suffix(self.rank)

    def first_does(self, work: Callable[[], object]) -> None:
        """The first worker does something and the others wait for it; if it fails, all fail."""
        failure: Exception | None = None
        try:
            if self.is_first:
                work()
        except Exception as error:
            failure = error
        if self.any_of(failure is not None)[0]:
            raise failure or RunError("train: the first process failed; it says why.")


SINGLE_PROCESS = Workers()
"""A training without torchrun."""


def _suffix(rank: int) -> str:
    return f".{rank}" if rank else ""


def local_device(device: str | None) -> str | None:
    """The GPU that belongs to this process, where a GPU is meant; otherwise the device given."""
    usual = "cuda" if torch.cuda.is_available() else None
    kind, rank = device or usual, os.environ.get("LOCAL_RANK")
    return f"{kind}:{rank}" if kind in MANY_GPUS and rank is not None else device


@contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """Join the process group of torchrun, if it started this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield SINGLE_PROCESS
        return
    if device.type not in {"cpu", *MANY_GPUS}:
        raise RunError(
            f"train: several processes cannot share a training on {device.type}, which is one GPU. "
            "Start it without torchrun, or give --device cpu."
        )
    if device.type in MANY_GPUS:
        torch.accelerator.set_device_index(device)
    backend = distributed.get_default_backend_for_device(device)
    distributed.init_process_group(backend, timeout=MAX_WAIT)
    try:
        yield Workers(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        distributed.destroy_process_group()
