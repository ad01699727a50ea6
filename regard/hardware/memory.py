"""What a process takes: its resident memory, and how much more there is to have.

A measurement runs in a fork, which keeps the parent's imports and gives all its memory back at the
end. Peaks are the process's resident peak less what it held before.
"""

import ctypes
import errno
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.errors import RegardError, RunError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment] # a module that is not there has no other type

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3
"""What malloc.h calls M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD."""

_NO_MEMORY = re.compile(
    "can't allocate memory|not enough memory|std::bad_alloc|CUBLAS_STATUS_ALLOC_FAILED"
)
"""What allocators say where they raise no error of their own."""


def in_a_fork(run: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What `run` says, from a process of its own; None if there was no memory for it.

    Whatever else `run` fails of is raised here too: an error of regard's as itself, any other as a
    RuntimeError that names it, both with the traceback of the other process.
    """
    if not hasattr(os, "fork"):
        raise _unmeasurable("processes cannot be forked")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as out:
                out.write(json.dumps(_outcome(run)))
        finally:
            # whatever happened, a copy of the parent must not go on as if it were the parent
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        # which is how the kernel takes memory back
        return None
    if not text:
        how = f"by {signal.Signals(-code).name}" if code < 0 else "before it could say why"
        raise ChildProcessError(f"a process that was to measure something was ended {how}.")
    return _received(json.loads(text))


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice, and nothing else."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None


def _outcome(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result, or what went wrong, in words that a pipe can carry."""
    try:
        return {"result": run()}
    except Exception as error:  # whoever waits must hear of it
        if lacks_memory(error):
            return {"result": None}
        trace = traceback.format_exc()
        return {"kind": type(error).__name__, "text": str(error), "trace": trace}


def _received(outcome: dict[str, Any]) -> dict[str, Any] | None:
    if "result" in outcome:
        return outcome["result"]
    ours = {each.__name__: each for each in RegardError.__subclasses__()}
    kind, text = outcome["kind"], outcome["text"]
    error = ours[kind](text) if kind in ours else RuntimeError(f"{kind}: {text}")
    error.add_note(f"in another process:\n{outcome['trace']}")
    raise error


def resident(field: str) -> int:
    """Bytes that this process holds (VmRSS), or has held at most (VmHWM)."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith(field))
        return int(line.split()[1]) * 1024
    if resource is None:
        raise _unmeasurable("there is neither /proc nor Python's module resource")
    # elsewhere only the peak since the start is known, in bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _unmeasurable(why: str) -> RunError:
    return RunError(
        f"memory cannot be measured on this system: {why}. Use Linux or macOS for regard plan and "
        "regard bench; everything else works here."
    )


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
    if sys.platform == "linux" and resource is not None:
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
