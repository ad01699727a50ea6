"""Workers: the processes of one training, started by torchrun; as a rule there is one.

Every worker holds the whole model and learns from its share of each update. Gradients are summed
once an update; after that all workers take the same step. The first one writes and speaks.
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
PATIENCE = timedelta(days=1)
"""How long others wait for one: the first may prepare a large corpus, or validate, for hours."""


@dataclass(frozen=True)
class Workers:
    """One process among all of a training."""

    rank: int = 0
    """Which one this is, counted from 0."""
    count: int = 1
    """How many there are."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where they exchange numbers."""

    @property
    def is_first(self) -> bool:
        """Whether this one writes and speaks."""
        return self.rank == 0

    def seed(self, seed: int, rank: int | None = None) -> int:
        """Of a worker's dropout: no two draw the same, and the first draws as if it were alone."""
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
            # one that had no batch has nothing to add
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        together = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        distributed.all_reduce(together)
        parts = together.split([p.numel() for p in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def sums(self, *numbers: Tensor | float | int) -> Sequence[Tensor | float | int]:
        """Each number, summed over all workers; one alone does not wait for what is on its way."""
        if self.count == 1:
            return list(numbers)
        together = torch.tensor([float(number) for number in numbers], dtype=torch.float64)
        together = together.to(self.device)
        distributed.all_reduce(together)
        return together.tolist()

    def any_of(self, *wishes: bool) -> list[bool]:
        """For each wish, whether any worker has it."""
        return [bool(total > 0) for total in self.sums(*(int(wish) for wish in wishes))]

    def gathered(self, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Every worker's tensors of bytes, under names of their own; the first keeps its names."""
        if self.count == 1:
            return dict(states)
        out: dict[str, Tensor] = {}
        for name, state in states.items():
            here = state.to(self.device)
            places = [torch.empty_like(here) for _ in range(self.count)]
            distributed.all_gather(places, here)
            out |= {name + _suffix(rank): place.cpu() for rank, place in enumerate(places)}
        return out

    @property
    def suffix(self) -> str:
        """What this worker's tensors have behind their names in a file of all workers'."""
        return _suffix(self.rank)

    def first_does(self, work: Callable[[], object]) -> None:
        """The first worker does something and the others wait for it; if it fails, all fail."""
        failure: Exception | None = None
        if self.is_first:
            try:
                work()
            except Exception as error:
                failure = error
        if failure is not None and self.count == 1:
            raise failure
        if self.any_of(failure is not None)[0]:
            raise failure or RunError("train: the first process failed; it says why.")


ALONE = Workers()


def _suffix(rank: int) -> str:
    return f".{rank}" if rank else ""


def local_device(device: str | None) -> str | None:
    """The GPU that belongs to this process, where a GPU is meant; otherwise what was asked for."""
    means_gpu = device == "cuda" or (device is None and torch.cuda.is_available())
    if means_gpu and "LOCAL_RANK" in os.environ:
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return device


@contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """Meet the other processes that torchrun started, if it did."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Workers(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        distributed.destroy_process_group()
