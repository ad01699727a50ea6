"""Hardware: a run's device, precision of products, threads, and states of random numbers."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from regard.choices import find
from regard.errors import CheckpointError, SettingError
from regard.hardware.cuda_graphs import CudaGraphs, GraphedWork, Work
from regard.hardware.threads import OPTION, Threads, free_threads, given_threads, use_threads
from regard.models import Model

M = TypeVar("M", bound=Model)
CPU_STATE, CUDA_STATE = "random.cpu", "random.cuda"
PRECISIONS: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def device_kinds() -> dict[str, int]:
    """How many devices of each kind torch can use on this machine."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return {"cpu": 1} if found is None else {"cpu": 1, found.type: torch.accelerator.device_count()}


def device_named(name: str | None) -> torch.device:
    """The device of a name, which this machine must have; without a name a GPU, else the CPU."""
    kinds = device_kinds()
    if name is None:
        return torch.device("cuda" if "cuda" in kinds else "cpu")
    numbered = [f"{kind}:{index}" for kind, count in kinds.items() for index in range(count)]
    if name not in (*kinds, *numbered):
        shown = ", ".join(["cpu", *(each for each in numbered if each != "cpu:0")])
        raise SettingError(
            f"--device: '{name}' is not on this machine: torch sees only {shown}. Give one of "
            "these, or leave it out."
        )
    return torch.device(name)


@dataclass(frozen=True)
class Hardware:
    """A device and a precision; weights and sums stay in float32."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    precision: torch.dtype = torch.float32
    compiles: bool = False
    """Whether a model's layers are compiled before it learns."""
    replays: bool = False
    """Whether a batch's work becomes a CUDA graph, which batches of the same shape replay."""
    threads: Threads | None = None
    """How many threads share a product on a CPU; torch's setting unless given."""

    @classmethod
    def chosen(
        cls,
        device: str | None,
        precision: str | None,
        *,
        compiles: bool | None = None,
        threads: int | None = None,
    ) -> "Hardware":
        """Unless said otherwise, a GPU where there is one, in bfloat16 and compiled.

        `threads` share a product on a CPU; unless given, one for each core that is free.
        """
        where = device_named(device)
        name = precision or ("bfloat16" if where.type == "cuda" else "float32")
        products = find(name, PRECISIONS, key="--precision")
        if products is not torch.float32 and where.type == "cpu":
            # some processors report bfloat16 support but crash at the first product
            raise SettingError(f"--precision: {name} is for GPUs; on the CPU take float32.")
        is_cuda = where.type == "cuda"
        compiles = is_cuda if compiles is None else compiles
        chosen = None if threads is None else given_threads(threads)
        if where.type == "cpu":
            chosen = chosen or free_threads()
        elif chosen is not None:
            raise SettingError(
                f"{OPTION}: {threads} are for the CPU, but {where} computes. Add --device cpu, or "
                f"leave {OPTION} out."
            )
        return cls(where, products, compiles, compiles and is_cuda, chosen)

    @property
    def multiple(self) -> int:
        """Lengths are rounded up to multiples of this, so that shapes repeat."""
        return 4 if self.replays else 1

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor on this device, copied without waiting."""
        if self.device.type == "cuda" and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def graphed(self, work: Work) -> GraphedWork:
        """The work of a batch, which CUDA graphs repeat if this hardware replays."""
        return GraphedWork(work, CudaGraphs(self.device) if self.replays else None)

    @contextmanager
    def on_threads(self) -> Iterator[None]:
        """A context in which this many threads share a product; it restores torch's setting."""
        before = torch.get_num_threads()
        use_threads(before if self.threads is None else self.threads.count)
        try:
            yield
        finally:
            use_threads(before)

    def products(self) -> torch.autocast:
        """A context in which products are made in this precision."""
        is_lower = self.precision is not torch.float32
        return torch.autocast(self.device.type, self.precision, enabled=is_lower)

    def uncompiled(self) -> AbstractContextManager[object]:
        """A context in which compiled layers run uncompiled, for work not worth compiling."""
        return torch.compiler.set_stance("force_eager") if self.compiles else nullcontext()

    def place(self, model: M) -> M:
        """Move a model to the device, and compile its repeated parts, for all lengths, if set."""
        if self.compiles:
            for part in model.repeated():
                part.compile(dynamic=True)
        return model.to(self.device)


CPU = Hardware()
"""The CPU, with torch's settings."""


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states that a training on this device draws from, by name."""
    states = {CPU_STATE: torch.get_rng_state()}
    if device.type == "cuda":
        states[CUDA_STATE] = torch.cuda.get_rng_state(device)
    return states


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore these states of random generators; one of another device is ignored."""
    try:
        if CPU_STATE in states:
            torch.set_rng_state(states[CPU_STATE])
        if CUDA_STATE in states and device.type == "cuda":
            torch.cuda.set_rng_state(states[CUDA_STATE], device)
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"random states: torch refuses the saved state: {error}.") from error
