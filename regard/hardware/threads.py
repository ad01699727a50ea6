"""Threads: choose how many threads share a product on a CPU, one for each free core.

Every product waits for a thread that another program or a quota stops: beside two busy processes
an update of recipes/copy.toml took 671 ms on two threads of two cores, and 33 ms on one. So a run
takes no more threads than there are free cores when it begins, and than its quota pays for; a
training tries the numbers that are possible and takes the fastest (thread_trials.py).
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from regard.errors import SettingError

OPTION = "--threads"
MAX_THREADS = 1024
"""The most that a user may ask for; a run of a larger machine is repeated on a smaller one."""
ASKED_BY = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which a user, or torchrun, chooses the number."""
WATCH_SECONDS, BUSY_SHARE = 0.1, 0.25
"""How long the cores are watched; a core that works for more of that time is not free."""

CPU_TIMES = Path("/proc/stat")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Threads:
    """A number of threads, and the reason for it."""

    count: int
    reason: str
    is_reduced: bool = False
    """Whether other programs or a quota reduced the number."""
    is_given: bool = False
    """Whether the caller gave it, which wins over the number that a run was begun with."""
    candidates: tuple[int, ...] = ()
    """The numbers that a training may try; none where there is nothing to choose."""
    seconds: Mapping[int, float] = field(default_factory=dict)
    """The time of an update on each number that was tried."""

    def __str__(self) -> str:
        return f"{self.count} thread{'s' if self.count > 1 else ''}: {self.reason}"


def use_threads(count: int) -> None:
    """Make torch use this many threads for a product."""
    # torch makes new thread pools even if the number does not change
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


def asked_by() -> str | None:
    """The variable by which the user chose a number of threads, if there is one."""
    return next((name for name in ASKED_BY if os.environ.get(name)), None)


def given_threads(count: int) -> Threads:
    """The number that the caller gives, which wins over everything."""
    if not 1 <= count <= MAX_THREADS:
        raise SettingError(
            f"{OPTION} must be between 1 and {MAX_THREADS:,}, got {count:,}. This machine has "
            f"{os.cpu_count()} cores; leave {OPTION} out to take those that are free."
        )
    return Threads(count, f"{OPTION} says so", is_given=True)


def free_threads() -> Threads:
    """One thread for each free core, at most as many as torch has; OMP_NUM_THREADS comes first."""
    most, variable = torch.get_num_threads(), asked_by()
    if variable is not None and os.environ[variable] == str(most):
        return Threads(most, f"{variable} says so")
    if variable is not None or most == 1:
        return Threads(most, "torch is set so")
    cores, quota = _own_cores(), cpu_quota()
    paid = len(cores) if quota is None else max(1, int(quota))
    tried = candidates(min(most, len(cores), len(cores) if quota is None else math.ceil(quota)))
    busy = busy_cores(cores)
    count = max(1, min(most, paid, len(cores) - busy))
    if count == most:
        free = f"{len(cores) - busy} of {len(cores)} cores are free"
        return Threads(count, free, candidates=tried)
    more = f"{OPTION} {most} takes {most} all the same"
    reason = f"other programs keep {busy} of {len(cores)} cores busy"
    if quota is not None and paid <= len(cores) - busy:
        reason = f"a quota gives this process {quota:g} of {len(cores)} cores"
    return Threads(count, f"{reason}; {more}", is_reduced=True, candidates=tried)


def candidates(most: int) -> tuple[int, ...]:
    """The numbers of threads worth trying: doubled from 1, and the most; none if 1 is the most.

    >>> candidates(6), candidates(2), candidates(1)
    ((1, 2, 4, 6), (1, 2), ())
    """
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*doubled, most) if doubled else ()


def _own_cores() -> set[int]:
    has_affinity = hasattr(os, "sched_getaffinity")
    return os.sched_getaffinity(0) if has_affinity else set(range(os.cpu_count() or 1))


def busy_cores(
    cores: set[int], *, times: Path = CPU_TIMES, wait: Callable[[float], None] = time.sleep
) -> int:
    """How many of these cores others kept busy while this process waited (Linux; elsewhere 0)."""
    before = _core_times(times)
    if not before:
        return 0
    wait(WATCH_SECONDS)
    after = _core_times(times)
    n_busy = 0
    for core in cores & before.keys() & after.keys():
        worked, passed = (now - then for now, then in zip(after[core], before[core], strict=True))
        n_busy += passed > 0 and worked > BUSY_SHARE * passed
    return n_busy


def _core_times(path: Path) -> dict[int, tuple[int, int]]:
    """Ticks that each core has worked, and all of its ticks."""
    times = {}
    for line in _lines(path):
        name, *numbers = line.split()
        if name.startswith("cpu") and name != "cpu":
            # user nice system idle iowait irq softirq steal; guests are counted in user
            ticks = [int(number) for number in numbers[:8]]
            idle = sum(ticks[3:5])
            times[int(name[3:])] = (sum(ticks) - idle, sum(ticks))
    return times


def cpu_quota(*, own: Path = OWN_GROUP, groups: Path = GROUPS) -> float | None:
    """How many cores' time the process's control group may take, or None without a limit."""
    names = [line.split(":", 2)[2] for line in _lines(own) if line.count(":") >= 2]
    folders = {
        folder
        for name in names
        for root in (groups, groups / "cpu")
        for folder in (root / name.lstrip("/"), *(root / name.lstrip("/")).parents)
        if folder.is_relative_to(groups)
    }
    return min((quota for folder in folders for quota in _quotas(folder)), default=None)


def _quotas(folder: Path) -> Iterator[float]:
    """The limit in a folder of control groups, by version 2 or version 1 of their files."""
    for line in _lines(folder / "cpu.max"):
        limit, period = line.split()
        if limit != "max":
            yield int(limit) / int(period)
    limits, periods = (_lines(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    for limit, period in zip(limits, periods, strict=False):
        if int(limit) > 0:
            yield int(limit) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
