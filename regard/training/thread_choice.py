"""Thread choice: a training on a CPU takes the number of threads on which its updates are fastest.

Forward and backward of a first batch are timed on a copy of the model, on each number of threads in
turns. Weights, optimiser, random states and the order of the data stay as they were. A batch that
takes long is timed in part, and a training that is too short to repay the trials has none.
"""

import time
from collections.abc import Mapping
from copy import deepcopy

import numpy as np

from regard.data.batches import collate
from regard.hardware.hardware import Hardware, random_states, restore
from regard.hardware.memory import keep_freed_memory
from regard.hardware.thread_trials import MIN_ROUNDS, trial_seconds
from regard.hardware.threads import Threads, use_threads
from regard.models import Model
from regard.training.accumulation import Accumulator
from regard.training.loop import epoch_updates
from regard.training.losses import Objective
from regard.training.preparation import Prepared

MAX_TRIAL_S, TRIAL_SHARE = 3.0, 0.05
"""The time of the trials is limited, by seconds and as a share of the updates that follow."""
FIRST_PART = 16
"""A part of so many of a batch is timed first, which tells how much of it can be timed."""


def fastest_threads(model: Model, prepared: Prepared, hardware: Hardware) -> Threads | None:
    """The hardware's threads, or those of its candidates on which an update is fastest.

    torch has that number afterwards.
    """
    threads = hardware.threads
    # compiling for trials would take longer than they can win
    if threads is None or not threads.candidates or hardware.compiles:
        return threads
    before = random_states(hardware.device)
    try:
        found = _update_seconds(model, prepared, hardware, threads.candidates)
    finally:
        restore(before, hardware.device)
    if not found:
        return threads
    count = min(found, key=lambda each: found[each])
    use_threads(count)
    return Threads(count, _reason(found), seconds=found)


def _update_seconds(
    model: Model, prepared: Prepared, hardware: Hardware, counts: tuple[int, ...]
) -> dict[int, float]:
    """The time of an update on each number of threads; none if trials would take too long."""
    keep_freed_memory()
    training, material = prepared.recipe.training, prepared.of_epoch(0)
    updates = epoch_updates(material.corpus, training, 0, material.rows)
    if not updates:
        return {}
    accumulator = Accumulator(deepcopy(model), Objective.of(training), hardware)
    batch, lengths = updates[0][0], material.corpus.target_lengths
    tokens = int(lengths[np.concatenate(updates[0])].sum())

    def work() -> None:
        accumulator.gather([collate(material.corpus, part)], tokens)

    def timed() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    # every turn begins with work that is not timed
    fewest = 2 * MIN_ROUNDS * len(counts)
    part = batch[: max(1, len(batch) // FIRST_PART)]
    part = batch[: max(len(part), int(len(part) * MAX_TRIAL_S / fewest / timed()))]
    took, share = timed(), int(lengths[part].sum()) / tokens
    seconds = min(MAX_TRIAL_S, TRIAL_SHARE * training.steps * took / share)
    if fewest * took > seconds:
        return {}
    found = trial_seconds(work, counts, seconds)
    return {count: one / share for count, one in found.items()}


def _reason(seconds: Mapping[int, float]) -> str:
    """The times of an update, the fastest first.

    >>> _reason({1: 0.0551, 2: 0.0412})
    'an update takes 41 ms with 2, 55 ms with 1'
    """
    ordered = sorted(seconds, key=lambda count: seconds[count])
    return "an update takes " + ", ".join(f"{_text(seconds[one])} with {one}" for one in ordered)


def _text(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"
