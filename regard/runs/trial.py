"""A trial: a few updates on real batches, one on the largest, and a validation, timed."""

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch

from regard.hardware.hardware import Hardware
from regard.hardware.memory import (
    available_memory,
    in_a_fork,
    lacks_memory,
    limit_memory,
    resident,
    start_counting,
)
from regard.models import Model, build_model
from regard.training.checkpoints import Progress
from regard.training.loop import Step, learn, learn_by_epoch, make_optimiser
from regard.training.preparation import Prepared
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import seconds_per_validation

MEASURED_S = 4.0
"""How long updates are timed, two of them at least …"""
MOST = 30
"""… and this many at most."""
MEASURED_VALIDATIONS_S = 1.0
"""How long validations are timed, one of them at least …"""
MOST_VALIDATIONS = 5
"""… and this many at most."""


@dataclass(frozen=True)
class Tried:
    """What a few updates took; no updates and no bytes if there was no memory for them."""

    updates: int = 0
    seconds_per_token: float | None = None
    """The median over the updates: other work on the machine slows down some of them."""
    peak_bytes: int | None = None
    splits: int = 0
    seconds_per_validation: float | None = None


def try_a_little(prepared: Prepared, hardware: Hardware, largest: np.ndarray) -> Tried:
    """Update a model that nobody keeps a few times, in a process of its own on a CPU.

    Args:
        prepared: what a training works with.
        hardware: where.
        largest: the rows of the batch that takes the most memory.
    """
    if hardware.device.type == "cuda":
        # a fork cannot use a GPU that its parent has looked at
        return _on_gpu(prepared, hardware, largest)
    with hardware.on_threads():
        threads, free = torch.get_num_threads(), available_memory()

    def run() -> dict[str, Any]:
        torch.set_num_threads(threads)
        limit_memory(free)
        before = start_counting()
        found = _learn_a_little(prepared, hardware, largest)
        return replace(found, peak_bytes=resident("VmHWM") - before).__dict__

    said = in_a_fork(run)
    return Tried() if said is None else Tried(**said)


def _on_gpu(prepared: Prepared, hardware: Hardware, largest: np.ndarray) -> Tried:
    torch.cuda.reset_peak_memory_stats(hardware.device)
    before = torch.cuda.memory_allocated(hardware.device)
    try:
        found = _learn_a_little(prepared, hardware, largest)
    except Exception as error:
        if lacks_memory(error):
            return Tried()
        raise
    return replace(found, peak_bytes=torch.cuda.max_memory_allocated(hardware.device) - before)


def _learn_a_little(prepared: Prepared, hardware: Hardware, largest: np.ndarray) -> Tried:
    """The first update loads kernels; the next ones are timed; the last is on the largest batch.

    A validation is timed after them.
    """
    recipe, corpus = prepared.recipe, prepared.train.corpus
    model = hardware.place(
        build_model(
            recipe.model,
            n_source_tokens=len(prepared.source),
            n_target_tokens=len(prepared.target),
        )
    )
    check_reaches_all_weights(model, prepared, hardware)
    optimiser = make_optimiser(model, recipe.training)
    endless = replace(recipe, training=replace(recipe.training, steps=1 << 30))
    start = Progress()
    steps = learn_by_epoch(model, optimiser, prepared.of_epoch, endless, start, hardware=hardware)
    next(steps)
    done: list[Step] = []
    begun = time.perf_counter()
    while len(done) < 2 or (time.perf_counter() - begun < MEASURED_S and len(done) < MOST):
        done.append(next(steps))
    last = next(learn(model, optimiser, corpus, endless, start, hardware=hardware, rows=largest))
    return Tried(
        updates=len(done),
        seconds_per_token=median(step.seconds / step.target_tokens for step in done),
        splits=last.splits,
        seconds_per_validation=median(_timed_validations(model, prepared, hardware)),
    )


def _timed_validations(model: Model, prepared: Prepared, hardware: Hardware) -> list[float]:
    """One if it takes long, and a few if it does not."""
    begun = time.perf_counter()
    took = [seconds_per_validation(model, prepared, hardware)]
    while time.perf_counter() - begun < MEASURED_VALIDATIONS_S and len(took) < MOST_VALIDATIONS:
        took.append(seconds_per_validation(model, prepared, hardware))
    return took
