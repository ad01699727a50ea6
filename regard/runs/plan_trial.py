"""The trial of a plan: what the parts of a training take, measured by doing a little of each.

The model is dropped. On a CPU it is in a process of its own, whose memory is the training's.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import torch

from regard.hardware.hardware import Hardware
from regard.hardware.memory import (
    available_memory,
    lacks_memory,
    limit_memory,
    resident,
    start_counting,
    told_in_a_fork,
)
from regard.training.card_json import code_hash
from regard.training.checkpoints import Progress, save_checkpoint
from regard.training.events import Step
from regard.training.loop import Material, learn, make_optimiser
from regard.training.preparation import Prepared
from regard.training.thread_choice import fastest_threads
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import ValidationCost, validation_cost

T = TypeVar("T")
Tell = Callable[[str], None]
"""Says what is measured now."""

TIMED_UPDATES_S, MAX_TIMED_UPDATES = 5.0, 100
"""How long updates are timed, in seconds and at most so many of them."""
WARM_UPDATES = 3
"""The most updates that are thrown away before; of slow ones fewer."""


@dataclass(frozen=True)
class Trial:
    """The measurements, in seconds; without numbers if the memory was too small."""

    updates: int = 0
    seconds_per_token: float | None = None
    """The mean over the updates, so that what else the machine does counts as in the training."""
    peak_bytes: int | None = None
    splits: int = 0
    validation: ValidationCost | None = None
    threads: str = ""
    """The number of threads and its reason, on a CPU."""
    model_s: float = 0.0
    """Of building the model, and of its first update above that of others."""
    threads_s: float = 0.0
    """Of trying numbers of threads."""
    per_epoch_s: float = 0.0
    """Of the data of an epoch."""
    checkpoint_s: float = 0.0
    finishing_s: float = 0.0


def run_trial(
    prepared: Prepared, hardware: Hardware, largest: np.ndarray
) -> Generator[str, None, Trial]:
    """Update a model a few times, `largest` at last, and drop it; yields what is measured."""
    if (gpu := hardware.gpu) is not None:
        # no fork here, since a fork cannot use its parent's GPU
        held = gpu.held_bytes()
        yield "measuring updates and a validation"
        try:
            found = timed_trial(prepared, hardware, largest, lambda line: None)
        except Exception as error:
            if lacks_memory(error):
                return Trial()
            raise
        return replace(found, peak_bytes=gpu.peak_bytes() - held)
    with hardware.on_threads():
        threads, free = torch.get_num_threads(), available_memory()

    def run(tell: Tell) -> dict[str, Any]:
        torch.set_num_threads(threads)
        limit_memory(free)
        before = start_counting()
        found = timed_trial(prepared, hardware, largest, tell)
        return asdict(replace(found, peak_bytes=resident("VmHWM") - before))

    fields = (yield from told_in_a_fork(run)) or {}
    cost = fields.pop("validation", None)
    if cost is None:
        return Trial()
    batches = tuple((size, took) for size, took in cost["batches"])
    return Trial(**fields, validation=ValidationCost(cost["loss"], batches, cost["n_there"]))


def timed_trial(prepared: Prepared, hardware: Hardware, largest: np.ndarray, tell: Tell) -> Trial:
    """Time the parts of a training, one update on the largest batch among them."""
    recipe, corpus = prepared.recipe, prepared.train.corpus
    tell("building the model")
    model, model_s = _timed(lambda: hardware.place(prepared.build()))
    _, checked_s = _timed(lambda: check_reaches_all_weights(model, prepared, hardware))
    tell("trying how many threads are fastest")
    threads, threads_s = _timed(lambda: fastest_threads(model, prepared, hardware))
    # after the trial of threads, which may have made the data of the first epoch
    per_epoch_s = 0.0 if not recipe.tokens.dropout else _timed(lambda: prepared.of_epoch(1))[1]
    optimiser = make_optimiser(model, recipe.training)
    endless = replace(recipe, training=replace(recipe.training, steps=1 << 30))

    def updates(material: Callable[[int], Material]) -> Iterator[Step]:
        return learn(model, optimiser, material, endless, Progress(), hardware=hardware)

    tell("measuring a few updates")
    steps = updates(prepared.of_epoch)
    first = next(steps)
    for _ in range(WARM_UPDATES - 1):
        if first.seconds < TIMED_UPDATES_S / 10:
            next(steps)
    done = _repeated(lambda: _timed(lambda: next(steps)), TIMED_UPDATES_S, MAX_TIMED_UPDATES)
    tokens, took = sum(step.target_tokens for step, _ in done), sum(each for _, each in done)
    tell("measuring an update on the largest batch")
    last = next(updates(lambda _: Material(corpus, largest)))
    tell("measuring a validation")
    cost = validation_cost(model, prepared, hardware)
    tell("measuring a checkpoint")
    with TemporaryDirectory() as name:
        _, checkpoint_s = _timed(lambda: save_checkpoint(Path(name), model, optimiser, Progress()))
    _, finishing_s = _timed(code_hash)
    return Trial(
        updates=len(done),
        seconds_per_token=took / tokens,
        splits=last.splits,
        validation=cost,
        threads="" if threads is None else str(threads),
        model_s=model_s + checked_s + max(0.0, first.seconds - took / len(done)),
        threads_s=threads_s,
        per_epoch_s=per_epoch_s,
        checkpoint_s=checkpoint_s,
        finishing_s=finishing_s,
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    begun = time.perf_counter()
    return work(), time.perf_counter() - begun


def _repeated(work: Callable[[], T], seconds: float, most: int) -> list[T]:
    """The results of work that is repeated for this time, at least twice and at most so often."""
    found: list[T] = []
    begun = time.perf_counter()
    while len(found) < 2 or (time.perf_counter() - begun < seconds and len(found) < most):
        found.append(work())
    return found
