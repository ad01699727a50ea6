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
from regard.hardware.devices import Gpu, device_named, gpu_of
from regard.hardware.threads import OPTION, Threads, free_threads, given_threads, use_threads
from regard.models import Model

M = TypeVar("M", bound=Model)
CPU_STATE = "random.cpu"
PRECISIONS: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


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
        """Unless said otherwise, cuda where there is one, compiled, in bfloat16 if it has that.

        `threads` share a product on a CPU; unless given, one for each core that is free.
        """
        where = device_named(device)
        products = _checked_precision(precision, where)
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
    def gpu(self) -> Gpu | None:
        """The GPU that the device is; None for the CPU."""
        return gpu_of(self.device)

    @property
    def scales_loss(self) -> bool:
        """Whether gradients may overflow, so that a training scales its loss."""
        return self.precision is torch.float16

    @property
    def multiple(self) -> int:
        """Lengths are rounded up to multiples of this, so that shapes repeat."""
        return 4 if self.replays else 1

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor on this device, copied without waiting where memory can be pinned."""
        pins = self.gpu is not None and self.gpu.pins_memory
        if pins and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=pins)

    def number(self, value: float) -> Tensor:
        """A number on this device, in double precision where it computes in that."""
        is_exact = self.gpu is None or self.gpu.has_float64
        return self.put(torch.tensor(value, dtype=torch.float64 if is_exact else torch.float32))

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


def _checked_precision(name: str | None, device: torch.device) -> torch.dtype:
    """The precision of a name, which the device must have; without a name its usual one."""
    gpu = gpu_of(device)
    if name is None:
        is_usual = device.type == "cuda" and gpu is not None and gpu.has_bfloat16()
        return torch.bfloat16 if is_usual else torch.float32
    products = find(name, PRECISIONS, key="--precision")
    if products is torch.bfloat16 and gpu is None:
        # some processors report bfloat16 support but crash at the first product
        raise SettingError(f"--precision: {name} is for GPUs; on the CPU take float32.")
    if products is torch.bfloat16 and gpu is not None and not gpu.has_bfloat16():
        raise SettingError(
            f"--precision: {gpu.name()} ({device}) does not compute in bfloat16. Take --precision "
            "float16, with which a training scales its loss, or float32."
        )
    if products is not torch.float32 and not torch.amp.is_autocast_available(device.type):
        raise SettingError(
            f"--precision: this torch makes no products in {name} on {device.type}. Take "
            "--precision float32."
        )
    return products


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states that a training on this device draws from, by name."""
    gpu = gpu_of(device)
    own = {} if gpu is None else {gpu_state(device): gpu.random_state()}
    return {CPU_STATE: torch.get_rng_state(), **own}


def gpu_state(device: torch.device) -> str:
    """The name of the random state of a device's kind."""
    return f"random.{device.type}"


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore these states of random generators; one of another device is ignored."""
    gpu = gpu_of(device)
    try:
        if CPU_STATE in states:
            torch.set_rng_state(states[CPU_STATE])
        if gpu is not None and gpu_state(device) in states:
            gpu.set_random_state(states[gpu_state(device)])
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"random states: torch refuses the saved state: {error}.") from error
