"""Worker processes: each runs `regard.serving.worker` for one run at the other end of a socket.

A process can be ended whatever it does, so that a step that hangs, or a model that takes all
memory, does not take the server with it.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from regard.hardware.devices import device_kinds
from regard.hardware.threads import asked_by, cpu_quota
from regard.serving.registry import Served

MAIN = "from regard.serving.worker import main; main()"
END_SECONDS = 5.0
"""How long a worker that is let go may take before it is ended."""


@runtime_checkable
class WorkerLink(Protocol):
    """The server's end of a worker."""

    connection: Connection

    def end(self) -> None:
        """End the worker, whatever it does; it may have ended by itself."""


Launch = Callable[[int], WorkerLink]
"""Starts the worker of a number, counted from 0."""


@final
@dataclass(frozen=True)
class WorkerSpec:
    """What a worker loads."""

    run: str
    device: str | None = None
    engine: str = "torch"
    imports: Sequence[str] = ()
    threads: int | None = None
    """Threads of torch; torch's own choice unless given."""


@final
class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, spec: WorkerSpec) -> None:
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        command = [sys.executable, "-c", MAIN, str(theirs.fileno())]
        environment = {**os.environ}
        if spec.threads:
            environment.setdefault("OMP_NUM_THREADS", str(spec.threads))
        with theirs:
            # in a session of its own, so that Ctrl-C reaches the server alone
            self.process = subprocess.Popen(
                [*command, json.dumps(asdict(spec))], pass_fds=(theirs.fileno(),),
                start_new_session=True, stdin=subprocess.DEVNULL, env=environment,
            )  # fmt: skip

    def end(self) -> None:
        """Close the connection, at which an idle worker ends; one that is busy is killed."""
        self.connection.close()
        self.process.kill()
        self.process.wait(END_SECONDS)


def threads_of_worker(n_workers: int) -> int | None:
    """Threads of each of so many workers on a CPU, unless the user chose a number.

    A core is left for the server: threads of one product wait for each other in a loop, and a
    server that takes a core from one of them holds up all.
    """
    if asked_by() is not None:
        return None
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    paid = cores if (quota := cpu_quota()) is None else min(cores, int(quota))
    return max(1, (paid - 1) // n_workers)


def launcher(
    *,
    device: str | None,
    engine: str,
    imports: Sequence[Path],
    n_workers: int,
    threads: int | None = None,
) -> Callable[[Served], Launch]:
    """Starts workers for a run: on the device that is named, or one for each GPU in turn.

    `n_workers` are those of all runs, which share the cores unless each is given so many threads.
    """
    n_gpus, threads = device_kinds().get("cuda", 0), threads or threads_of_worker(n_workers)

    def of(served: Served) -> Launch:
        def launch(number: int) -> WorkerLink:
            is_shared = served.trained.hardware.device.type == "cuda" and device in (None, "cuda")
            place = f"cuda:{number % n_gpus}" if is_shared else device
            files = [str(path) for path in imports]
            path = str(served.trained.path)
            return WorkerProcess(WorkerSpec(path, place, engine, files, threads))

        return launch

    return of
