"""A run for a verb: loaded, with a word on the error stream where it gets less than the machine."""

import sys
from pathlib import Path

from regard.training.trained import Trained, load


def load_for_verb(
    run: Path, *others: Path, device: str | None = None, precision: str | None = None
) -> Trained:
    """Load a run, or several that write together, and tell if cores are left to other programs."""
    trained = load(run, *others, device=device, precision=precision)
    threads = trained.hardware.threads
    if threads is not None and threads.is_reduced:
        print(f"on {threads}", file=sys.stderr, flush=True)
    return trained
