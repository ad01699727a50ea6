"""Runs for verbs: loaded, with threads for the free cores and a word where cores are left."""

import sys
from pathlib import Path

from regard.hardware.hardware import Hardware
from regard.hardware.threads import asked_by, use_threads
from regard.runs.trained import Trained, load


def load_for_verb(
    run: Path, *others: Path, device: str | None = None, precision: str | None = None
) -> Trained:
    """Load a run, or several that write together; this process takes the threads it may."""
    trained = load(run, *others, device=device, precision=precision)
    take_threads(trained.hardware)
    return trained


def take_threads(hardware: Hardware) -> None:
    """Have all of this process share products by as many threads as a hardware has.

    Where cores are left to other programs, standard error says so.
    """
    if hardware.threads is None:
        return
    use_threads(hardware.threads.count)
    if hardware.threads.is_reduced:
        print(f"on {hardware.threads}", file=sys.stderr, flush=True)


def take_one_thread() -> None:
    """Have each request of a server be answered by one thread, unless the user chose otherwise.

    Requests are answered outside the main thread, where torch's threads hardly help each other: 50
    answers of a small model took 19.1 s on two threads, and 4.7 s on one.
    """
    if asked_by() is None:
        use_threads(1)
