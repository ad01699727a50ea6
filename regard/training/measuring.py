"""What a process takes: its resident memory, and how much more there is to have.

A measurement runs in a fork, which keeps the parent's imports and gives all its memory back at the
end. Peaks are the process's resident peak less what it held before.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3
"""What malloc.h calls M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD."""


def in_a_fork(run: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What `run` says, from a process of its own; None if the system ended that process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            with os.fdopen(writer, "w") as out:
                out.write(json.dumps(run()))
            status = 0
        finally:
            # whatever happened, a copy of the parent must not go on as if it were the parent
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def resident(field: str) -> int:
    """Bytes that this process holds (VmRSS), or has held at most (VmHWM)."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith(field))
        return int(line.split()[1]) * 1024
    # elsewhere only the peak since the start is known, in bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def start_counting() -> int:
    """Let the peak start again from here; what is held now comes back (Linux, glibc)."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        # what the allocator keeps for later would hide what is measured
        library.malloc_trim(0)
    held = resident("VmRSS")
    counter = Path("/proc/self/clear_refs")
    if counter.exists():
        counter.write_text("5")
    return held


def limit_memory(more_bytes: int) -> None:
    """Make an allocation that would not fit fail, rather than the machine (Linux)."""
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = held + more_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def available_memory() -> int:
    """Bytes that could be had now without swapping."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return 8 << 30
    line = next(x for x in info.read_text().splitlines() if x.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


def keep_freed_memory() -> None:
    """Have the allocator keep what is freed for the next update (glibc).

    Otherwise an update's large tensors go back to the system, and the system clears their pages
    again for the next update; that alone takes a tenth of the time on a CPU.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        for option, size in ((_TRIM, (1 << 31) - 1), (_MMAP, 32 << 20), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, size)
