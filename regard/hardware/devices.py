"""Devices: what torch offers on each kind of GPU, asked in one place, so that none is assumed.

    cuda  of NVIDIA and AMD      xpu  of Intel      mps  of Apple

A CPU is not one of them. What a kind lacks has an answer that is safe: no pinned memory on Apple's,
whose memory is the machine's own, and no double precision off cuda.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError


@runtime_checkable
class Gpu(Protocol):
    """One GPU: its name, its memory and its random numbers."""

    pins_memory: bool
    """Whether copies from pinned memory run beside the computation."""
    has_float64: bool
    """Whether it computes in double precision."""

    def name(self) -> str:
        """The card's name."""

    def has_bfloat16(self) -> bool:
        """Whether it computes in bfloat16, and does not only imitate it."""

    def free_bytes(self) -> int:
        """Memory that is free on it."""

    def held_bytes(self) -> int:
        """Memory that tensors of this process take; the peak is counted from here on."""

    def peak_bytes(self) -> int:
        """The most that tensors have taken since."""

    def release(self) -> None:
        """Give memory back that no tensor takes."""

    def random_state(self) -> Tensor:
        """The state of its random numbers."""

    def set_random_state(self, state: Tensor) -> None:
        """Go on with random numbers from a state."""


@final
class CudaLike:
    """A GPU whose module has the functions of torch.cuda; xpu's has them too."""

    pins_memory = True

    def __init__(self, device: torch.device) -> None:
        self.device, self.module = device, torch.get_device_module(device)
        self.has_float64 = device.type == "cuda"

    def name(self) -> str:
        """The card's name."""
        return str(self.module.get_device_name(self.device))

    def has_bfloat16(self) -> bool:
        """Whether it computes in bfloat16, and does not only imitate it."""
        with self.module.device(self.device):
            return bool(self.module.is_bf16_supported(including_emulation=False))

    def free_bytes(self) -> int:
        """Memory that is free on it."""
        return int(self.module.mem_get_info(self.device)[0])

    def held_bytes(self) -> int:
        """Memory that tensors of this process take; the peak is counted from here on."""
        self.module.reset_peak_memory_stats(self.device)
        return int(self.module.memory_allocated(self.device))

    def peak_bytes(self) -> int:
        """The most that tensors have taken since."""
        return int(self.module.max_memory_allocated(self.device))

    def release(self) -> None:
        """Give memory back that no tensor takes."""
        self.module.empty_cache()

    def random_state(self) -> Tensor:
        """The state of its random numbers."""
        state: Tensor = self.module.get_rng_state(self.device)
        return state

    def set_random_state(self, state: Tensor) -> None:
        """Go on with random numbers from a state."""
        self.module.set_rng_state(state, self.device)


@final
class AppleGpu:
    """The GPU of an Apple processor, which shares the machine's memory."""

    pins_memory = False
    has_float64 = False

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def name(self) -> str:
        """The card's name."""
        return str(torch.backends.mps.get_name())

    def has_bfloat16(self) -> bool:
        """Whether its system computes in bfloat16: macOS 14 does."""
        return bool(torch.backends.mps.is_macos_or_newer(14, 0))

    def free_bytes(self) -> int:
        """Memory that the system recommends at most, less what this process holds."""
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())

    def held_bytes(self) -> int:
        """Memory that the driver holds for this process, when nothing is kept for later."""
        torch.mps.empty_cache()
        return int(torch.mps.driver_allocated_memory())

    def peak_bytes(self) -> int:
        """Memory that the driver holds: what tensors have left stays until it is released."""
        return int(torch.mps.driver_allocated_memory())

    def release(self) -> None:
        """Give memory back that no tensor takes."""
        torch.mps.empty_cache()

    def random_state(self) -> Tensor:
        """The state of its random numbers."""
        return torch.mps.get_rng_state()

    def set_random_state(self, state: Tensor) -> None:
        """Go on with random numbers from a state."""
        torch.mps.set_rng_state(state)


GPUS: Mapping[str, Callable[[torch.device], Gpu]] = {
    "cuda": CudaLike,
    "xpu": CudaLike,
    "mps": AppleGpu,
}
"""The kinds of GPU that a run can compute on."""


def gpu_of(device: torch.device) -> Gpu | None:
    """The GPU that a device is; None for the CPU."""
    return None if device.type == "cpu" else find(device.type, GPUS, key="--device")(device)


def device_kinds() -> dict[str, int]:
    """How many devices of each kind a run can compute on here, as torch sees them."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None or found.type not in GPUS:
        return {"cpu": 1}
    return {"cpu": 1, found.type: torch.accelerator.device_count()}


def device_named(name: str | None) -> torch.device:
    """The device of a name, which this machine must have; without a name cuda, else the CPU."""
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
