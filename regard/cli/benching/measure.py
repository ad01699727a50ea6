"""Seconds and peak memory of one case, in a process forked for it alone.

A fork keeps the parent's imports, so that a measurement costs no start-up, and ends with all its
memory given back. Peak memory is the process's resident peak less what it held when the inputs
existed, so inputs do not count and everything else does.
"""

import ctypes
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.cli.benching.cases import Work, build

WARM_UP = 64
"""Length of the run that loads the kernels before anything is measured."""

BUDGET_S = 1.5
"""A case is repeated until it has run this long, three times at least …"""

LIMIT_S = 8.0
"""… unless it has run this long already."""

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Measured:
    """What came out; seconds and bytes are None where the case did not fit."""

    forward_s: float | None
    forward_bytes: int | None
    both_s: float | None
    both_bytes: int | None
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the mechanism failed its check, so that its speed means nothing."""
        return self.problem is not None and self.problem.startswith("wrong")


def measure(name: str, n: int, *, memory_bytes: int, threads: int) -> Measured:
    """Fork, run, and read what the child says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as out:
            out.write(json.dumps(_in_child(name, n, memory_bytes, threads)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    if not text:
        return Measured(None, None, None, None, "too large: the system ended the process")
    return Measured(**json.loads(text))


def _in_child(name: str, n: int, memory_bytes: int, threads: int) -> dict[str, object]:
    torch.set_num_threads(threads)
    _limit(memory_bytes)
    out: dict[str, object] = dict.fromkeys(("forward_s", "forward_bytes", "both_s", "both_bytes"))
    try:
        _both(build(name, min(n, WARM_UP)))
        work = build(name, n)
        if (difference := work.check()) > TOLERANCE:
            return {**out, "problem": f"wrong: differs from the law by {difference:.1e}"}
        out["forward_bytes"] = _peak(lambda: _forward(work))
        out["forward_s"] = _seconds(lambda: _forward(work))
        out["both_bytes"] = _peak(lambda: _both(work))
        out["both_s"] = _seconds(lambda: _both(work))
    except (RuntimeError, MemoryError) as error:
        asked = re.search(r"(\d+) bytes", str(error))
        if asked is None and not isinstance(error, MemoryError):
            return {**out, "problem": f"failed: {str(error).splitlines()[0]}"}
        size = f" ({int(asked[1]) / 2**30:.1f} GiB in one piece)" if asked else ""
        return {**out, "problem": f"too large{size}"}
    return {**out, "problem": None}


def _forward(work: Work) -> None:
    with torch.no_grad():
        work.run()


def _both(work: Work) -> None:
    out = work.run()
    out.backward(torch.ones_like(out))
    for tensor in work.learns:
        tensor.grad = None


def _seconds(run: Callable[[], None]) -> float:
    """The quickest of as many runs as the budget allows: other work can only slow one down."""
    times: list[float] = []
    while sum(times) < LIMIT_S and (len(times) < 3 or sum(times) < BUDGET_S):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _peak(run: Callable[[], None]) -> int:
    """How far the resident set rose above where it stood."""
    _give_back()
    before = _resident("VmRSS")
    _forget_peak()
    run()
    return max(0, _resident("VmHWM") - before)


def _give_back() -> None:
    """Return what the allocator keeps for later, so that nothing measured hides in it (glibc)."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def _forget_peak() -> None:
    """Let the peak start again from here (Linux)."""
    counter = Path("/proc/self/clear_refs")
    if counter.exists():
        counter.write_text("5")


def _resident(field: str) -> int:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith(field))
        return int(line.split()[1]) * 1024
    # elsewhere only the peak since the start is known, in bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit(memory_bytes: int) -> None:
    """Make an allocation that would not fit fail, rather than the machine."""
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = held + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def free_memory() -> int:
    """Bytes a case may take: six tenths of what is free now."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return 8 << 30
    line = next(x for x in info.read_text().splitlines() if x.startswith("MemAvailable"))
    return int(int(line.split()[1]) * 1024 * 0.6)
