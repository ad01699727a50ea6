"""Where a run computes, in which precision its products are made, and by how many threads."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError
from regard.hardware.recorded_work import CudaGraphs, Eager, Recorder, Work
from regard.hardware.threads import Threads, free_threads, use_threads
from regard.models import Model

M = TypeVar("M", bound=Model)
PRECISIONS: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def device_kinds() -> dict[str, int]:
    """How many devices of each kind torch can use on this machine."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return {"cpu": 1} if found is None else {"cpu": 1, found.type: torch.accelerator.device_count()}


def device_named(name: str | None) -> torch.device:
    """The device of a name, which must be on this machine; unless given, a GPU or else the CPU."""
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
    """Whether the work of a batch is recorded, and played again for batches of its shape."""
    threads: Threads | None = None
    """How many threads share a product on a CPU; as many as torch is set to if it is not said."""

    @classmethod
    def chosen(
        cls, device: str | None, precision: str | None, *, compiles: bool | None = None
    ) -> "Hardware":
        """What was asked for; unless said, a GPU where there is one, bfloat16 and compiled.

        A CPU's threads are as many as there are free cores.
        """
        where = device_named(device)
        name = precision or ("bfloat16" if where.type == "cuda" else "float32")
        products = find(name, PRECISIONS, key="--precision")
        low = products is not torch.float32
        if low and where.type == "cpu":
            # some processors say that they have such products and end the process at the first
            raise SettingError(f"--precision: {name} is for GPUs; on the CPU take float32.")
        return cls(
            where,
            products,
            compiles=where.type == "cuda" if compiles is None else compiles,
            replays=where.type == "cuda" if compiles is None else compiles and where.type == "cuda",
            threads=free_threads() if where.type == "cpu" else None,
        )

    @property
    def multiple(self) -> int:
        """What lengths are rounded up to, so that shapes return."""
        return 4 if self.replays else 1

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor on this device; on its way there nobody waits."""
        if self.device.type == "cuda" and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def recorder(self, work: Work) -> Recorder | Eager:
        """The work, by recordings if this hardware replays."""
        return Recorder(work, CudaGraphs(self.device)) if self.replays else Eager(work)

    @contextmanager
    def on_threads(self) -> Iterator[None]:
        """A context in which this many threads share a product; after it torch is as before."""
        before = torch.get_num_threads()
        use_threads(before if self.threads is None else self.threads.count)
        try:
            yield
        finally:
            use_threads(before)

    def products(self) -> torch.autocast:
        """A context in which products are made in this precision."""
        is_low = self.precision is not torch.float32
        return torch.autocast(self.device.type, self.precision, enabled=is_low)

    def plainly(self) -> AbstractContextManager[object]:
        """A context in which compiled layers run as they are written.

        What is read once, such as a validation, is not worth another compilation.
        """
        return torch.compiler.set_stance("force_eager") if self.compiles else nullcontext()

    def place(self, model: M) -> M:
        """Put a model here; its repeated parts are compiled, for all lengths, if hardware does."""
        if self.compiles:
            for part in model.repeated():
                part.compile(dynamic=True)
        return model.to(self.device)
