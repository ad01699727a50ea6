"""Memory: measures a process's resident memory and the memory that is available.

A measurement runs in a fork, which keeps the parent's imports and frees all its memory at the end.
A peak is the process's resident peak minus its memory before.
"""

import ctypes
import errno
import gc
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import torch

from regard.errors import RegardError, RunError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment] # a module that is not there has no other type

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3
"""M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of malloc.h."""

_NO_MEMORY = re.compile(
    "can't allocate memory|not enough memory|std::bad_alloc|CUBLAS_STATUS_ALLOC_FAILED"
    "|MPS backend out of memory"
)
"""Messages of allocators that raise only a general error type; mps has no type of its own."""


def in_a_fork(run: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """The result of `run` in a forked process; None if memory ran out.

    Other errors are raised here too, with their traceback: those of regard as they are, the rest
    as a RuntimeError that names them.
    """
    told = told_in_a_fork(lambda _: run())
    while True:
        try:
            next(told)
        except StopIteration as end:
            result: dict[str, Any] | None = end.value
            return result


def told_in_a_fork(
    run: Callable[[Callable[[str], None]], dict[str, Any]],
) -> Generator[str, None, dict[str, Any] | None]:
    """As `in_a_fork`; yields each line that `run` tells while it works, before its result."""
    if not hasattr(os, "fork"):
        raise _unmeasurable("processes cannot be forked")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as out:

                def tell(line: str) -> None:
                    print(json.dumps({"line": line}), file=out, flush=True)

                print(json.dumps(_outcome(lambda: run(tell))), file=out)
        finally:
            # the fork must not continue with the parent's code
            os._exit(0)
    os.close(writer)
    outcome: dict[str, Any] = {}
    with os.fdopen(reader) as answer:
        for text in answer:
            outcome = json.loads(text)
            if "line" in outcome:
                yield outcome.pop("line")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        # the kernel's out-of-memory killer sends this signal
        return None
    if not outcome:
        how = f"by {signal.Signals(-code).name}" if code < 0 else "before it could say why"
        raise ChildProcessError(f"a process that was to measure something was ended {how}.")
    if "error" not in outcome:
        return outcome["result"]
    kind, message, trace = outcome["error"]
    ours = {each.__name__: each for each in RegardError.__subclasses__()}
    error = ours[kind](message) if kind in ours else RuntimeError(f"{kind}: {message}")
    error.add_note(f"in another process:\n{trace}")
    raise error


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None


def lacks_gpu_memory(error: RuntimeError) -> bool:
    """Whether an error means that a GPU's memory ran out, so that less at once may fit."""
    return isinstance(error, torch.OutOfMemoryError) or "MPS backend out of memory" in str(error)


def spare_loaded_objects() -> None:
    """Let Python's collector look no more at what is loaded now.

    It holds everything up while it looks through the hundreds of thousands of objects of torch.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _outcome(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result, or its error, as JSON can hold it."""
    try:
        return {"result": run()}
    except Exception as error:  # the parent waits for it
        if lacks_memory(error):
            return {"result": None}
        return {"error": (type(error).__name__, str(error), traceback.format_exc())}


def resident(field: str) -> int:
    """Bytes of this process now (VmRSS), or at most so far (VmHWM)."""
    found = _in_bytes(Path("/proc/self/status"), field)
    if found is None and resource is None:
        raise _unmeasurable("there is neither /proc nor Python's module resource")
    # elsewhere only the peak since the start is known, in bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if found is None else found


def _unmeasurable(why: str) -> RunError:
    return RunError(
        f"memory cannot be measured on this system: {why}. Use Linux or macOS for regard plan and "
        "regard bench; everything else works here."
    )


def start_counting() -> int:
    """Reset the peak to the current memory, and return that (Linux, glibc)."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        # freed memory that the allocator keeps would hide the measured peak
        library.malloc_trim(0)
    now, counter = resident("VmRSS"), Path("/proc/self/clear_refs")
    if counter.exists():
        counter.write_text("5")
    return now


def limit_memory(more_bytes: int) -> None:
    """Make an allocation that would not fit fail, rather than the machine (Linux)."""
    if sys.platform == "linux" and resource is not None:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + more_bytes, held + more_bytes))


def available_memory() -> int:
    """Bytes available now without swapping."""
    free = _in_bytes(Path("/proc/meminfo"), "MemAvailable")
    return 8 << 30 if free is None else free


def _in_bytes(table: Path, field: str) -> int | None:
    """A field of a table that the kernel writes in kilobytes; None where there is no such table."""
    if not table.exists():
        return None
    line = next(x for x in table.read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def process_seconds() -> float:
    """How long this process has been running (Linux; elsewhere the processor time it has used)."""
    stat, uptime = Path("/proc/self/stat"), Path("/proc/uptime")
    if not (stat.exists() and uptime.exists()):
        return time.process_time()
    # the name of the program, in parentheses, may hold spaces
    started = int(stat.read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(uptime.read_text().split()[0]) - started


def keep_freed_memory() -> None:
    """Make the allocator keep freed memory for the next update (glibc)."""
    # clearing the pages of large tensors anew takes a tenth of an update's time on a CPU
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        for option, size in ((_TRIM, (1 << 31) - 1), (_MMAP, 32 << 20), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, size)
