"""Seconds and peak memory of one case; on a CPU in a process forked for it alone.

A fork keeps the parent's imports, so that a measurement costs no start-up, and ends with all its
memory given back. Peak memory is the process's resident peak, or the most that a GPU's allocator
gave out, less what was held when the inputs existed: inputs do not count, everything else does.
"""

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from regard.bench.cases import Scale, Work, build
from regard.hardware.memory import (
    available_memory,
    in_a_fork,
    limit_memory,
    resident,
    start_counting,
)

WARM_UP = 64
"""Length of the run that loads the kernels before anything is measured."""

BUDGET_S, BUDGET_ON_GPU_S = 1.5, 0.3
"""A case is repeated until it has run this long, three times at least …"""

LIMIT_S, LIMIT_ON_GPU_S = 8.0, 2.0
"""… unless it has run this long already, in the run that counts its memory too."""


@dataclass(frozen=True)
class Measured:
    """The measurements; seconds and bytes are None if the case did not fit."""

    forward_s: float | None
    forward_bytes: int | None
    both_s: float | None
    both_bytes: int | None
    flex_s: float | None = None
    """Forward and backward by compiled `flex_attention`, where that is a peer."""
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the mechanism failed its check, which makes its speed meaningless."""
        return self.problem is not None and self.problem.startswith("wrong")


def measure(name: str, n: int, scale: Scale, *, memory_bytes: int, threads: int) -> Measured:
    """Run a case, and read its measurements."""
    if scale.device.type == "cuda":
        # a forked process cannot use a GPU
        return _measured(name, n, scale)

    def in_child() -> dict[str, object]:
        torch.set_num_threads(threads)
        limit_memory(memory_bytes)
        return asdict(_measured(name, n, scale))

    said = in_a_fork(in_child)
    if said is None:
        return Measured(None, None, None, None, problem="too large: the system ended the process")
    return Measured(**said)


def _measured(name: str, n: int, scale: Scale) -> Measured:
    nothing, device = Measured(None, None, None, None), scale.device
    try:
        _both(build(name, min(n, WARM_UP), scale))
        work = build(name, n, scale)
        if (difference := work.check()) > scale.tolerance:
            return replace(nothing, problem=f"wrong: differs from the law by {difference:.1e}")
        forward_s, forward_bytes = _seconds_and_bytes(lambda: _forward(work), device)
        both_s, both_bytes = _seconds_and_bytes(lambda: _both(work), device)
        return Measured(forward_s, forward_bytes, both_s, both_bytes, _flex_seconds(work, device))
    except (RuntimeError, MemoryError) as error:
        return replace(nothing, problem=problem_of(error))


def problem_of(error: RuntimeError | MemoryError) -> str:
    """Why a case could not be measured, in a few words."""
    asked = re.search(r"(\d+) bytes|allocate ([\d.]+) GiB", str(error))
    if asked is None and not isinstance(error, MemoryError):
        return f"failed: {str(error).splitlines()[0]}"
    return f"too large{_asked_for(asked)}"


def _seconds_and_bytes(run: Callable[[], object], device: torch.device) -> tuple[float, int]:
    """The quickest of several runs, and the memory of the first; a long run is not repeated."""
    seconds: list[float] = []
    taken = peak_bytes(lambda: seconds.append(_seconds(run, device)), device)
    limit = LIMIT_ON_GPU_S if device.type == "cuda" else LIMIT_S
    return (seconds[0] if seconds[0] > limit else quickest(run, device)), taken


def _flex_seconds(work: Work, device: torch.device) -> float | None:
    if work.flex is None:
        return None
    flex = replace(work, run=work.flex)
    # the first run compiles it
    _both(flex)
    return quickest(lambda: _both(flex), device)


def _asked_for(found: re.Match[str] | None) -> str:
    """The size of the piece of memory that could not be had."""
    if found is None:
        return ""
    gib = int(found[1]) / 2**30 if found[1] else float(found[2])
    return f" ({gib:.1f} GiB in one piece)"


def _forward(work: Work) -> None:
    with torch.no_grad():
        work.run()


def _both(work: Work) -> None:
    out = work.run()
    out.backward(torch.ones_like(out))
    for tensor in work.learns:
        tensor.grad = None


def quickest(run: Callable[[], object], device: torch.device) -> float:
    """The quickest of as many runs as the budget allows: other work can only slow one down."""
    is_gpu = device.type == "cuda"
    budget, limit = (BUDGET_ON_GPU_S, LIMIT_ON_GPU_S) if is_gpu else (BUDGET_S, LIMIT_S)
    times: list[float] = []
    while sum(times) < limit and (len(times) < 3 or sum(times) < budget):
        times.append(_seconds(run, device))
    return min(times)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    _wait_for(device)
    start = time.perf_counter()
    run()
    _wait_for(device)
    return time.perf_counter() - start


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """How far the memory in use rose above where it stood."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - held
    before = start_counting()
    run()
    return max(0, resident("VmHWM") - before)


def free_memory() -> int:
    """Bytes a case may take: six tenths of what is free now."""
    return int(available_memory() * 0.6)
