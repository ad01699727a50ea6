"""Seconds and peak memory of one case, in a process forked for it alone.

A fork keeps the parent's imports, so that a measurement costs no start-up, and ends with all its
memory given back. Peak memory is the process's resident peak less what it held when the inputs
existed, so inputs do not count and everything else does.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.bench.cases import Work, build
from regard.hardware.memory import (
    available_memory,
    in_a_fork,
    limit_memory,
    resident,
    start_counting,
)

WARM_UP = 64
"""Length of the run that loads the kernels before anything is measured."""

BUDGET_S = 1.5
"""A case is repeated until it has run this long, three times at least …"""

LIMIT_S = 8.0
"""… unless it has run this long already."""

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Measured:
    """The measurements; seconds and bytes are None if the case did not fit."""

    forward_s: float | None
    forward_bytes: int | None
    both_s: float | None
    both_bytes: int | None
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the mechanism failed its check, which makes its speed meaningless."""
        return self.problem is not None and self.problem.startswith("wrong")


def measure(name: str, n: int, *, memory_bytes: int, threads: int) -> Measured:
    """Run a case in a fork, and read its measurements."""
    said = in_a_fork(lambda: _in_child(name, n, memory_bytes, threads))
    if said is None:
        return Measured(None, None, None, None, "too large: the system ended the process")
    return Measured(**said)


def _in_child(name: str, n: int, memory_bytes: int, threads: int) -> dict[str, object]:
    torch.set_num_threads(threads)
    limit_memory(memory_bytes)
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
    before = start_counting()
    run()
    return max(0, resident("VmHWM") - before)


def free_memory() -> int:
    """Bytes a case may take: six tenths of what is free now."""
    return int(available_memory() * 0.6)
