"""The plan of a training: the memory, time and disk space that a recipe will take.

Sub-words and batches are made as training makes them, in a temporary folder. A few updates and a
validation give the time, an update on the largest batch the memory. From a corpus of very many
examples only some are read, evenly spread; the plan says so.
"""

import json
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch

from regard.choices import Choice
from regard.data.batches import padding_share
from regard.hardware.hardware import Hardware
from regard.hardware.memory import (
    available_memory,
    in_a_fork,
    lacks_memory,
    limit_memory,
    resident,
    start_counting,
)
from regard.models import shapes_of
from regard.recipes.idle_settings import idle_settings
from regard.recipes.recipe import Recipe, TrainingRecipe, examples
from regard.tasks import task_of
from regard.tasks.trees import check_trees
from regard.training.checkpoints import Progress
from regard.training.events import Step
from regard.training.loop import Material, epoch_updates, learn, make_optimiser
from regard.training.preparation import Prepared, check_first_examples, prepare
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import seconds_per_validation
from regard.training.workers import SINGLE_PROCESS

T = TypeVar("T")

MAX_READ_EXAMPLES = 200_000
BYTES_PER_WEIGHT = 4
TIMED_UPDATES_S, MAX_TIMED_UPDATES = 4.0, 30
TIMED_VALIDATIONS_S, MAX_TIMED_VALIDATIONS = 1.0, 5
"""How long each is timed, in seconds and at most so many of them."""


@dataclass(frozen=True)
class Parameters:
    """The numbers of learned weights."""

    total: int
    embeddings: int
    parts: dict[str, int]
    """By the model's own parts."""


@dataclass(frozen=True)
class Examples:
    """The numbers of training and validation examples."""

    training: int
    read: int
    """How many of them this plan has read."""
    validation: int
    left_out: int
    """Past data.max_tokens."""
    source_vocabulary: int
    target_vocabulary: int


@dataclass(frozen=True)
class Updates:
    """The updates of an epoch, and the batches of an update that are in memory at once."""

    steps: int
    target_tokens: float
    """Of one update, on average; so are its batches."""
    batches: float
    per_epoch: float
    epochs: float
    padding: float
    """The share of padding in the batches."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes; the peak was measured and holds the others, but not an average of the weights."""

    weights: int
    gradients: int
    optimiser: int
    average: int
    peak: int | None
    """None if it did not fit."""
    available: int


@dataclass(frozen=True)
class Duration:
    """Seconds of updates and validations; preparing and checkpoints come on top."""

    measured_updates: int
    per_update: float | None
    total: float | None
    validations: int = 0
    """How many there are, if training.patience does not end the training before."""
    per_validation: float | None = None
    """Where answers are as long as the references; a model that cannot end them takes longer."""


@dataclass(frozen=True)
class Disk:
    """Bytes that files take."""

    checkpoint: int
    checkpoints: int
    """How many there are at most, with the one that is being written."""
    model: int
    corpus: int
    total: int
    available: int


@dataclass(frozen=True)
class Trial:
    """The measurements of a few updates; without numbers if the memory was too small."""

    updates: int = 0
    seconds_per_token: float | None = None
    """The median over the updates: other work on the machine slows down some of them."""
    peak_bytes: int | None = None
    splits: int = 0
    seconds_per_validation: float | None = None


@dataclass(frozen=True)
class TrainingPlan:
    """The resources that a training will take, and the problems found."""

    parameters: Parameters
    examples: Examples
    updates: Updates
    memory: MemoryEstimate
    time: Duration
    disk: Disk
    problems: tuple[str, ...]
    """The limits that it exceeds."""
    notes: tuple[str, ...]


def plan(recipe: Recipe, *, hardware: Hardware, out: Path) -> Iterator[str | TrainingPlan]:
    """Yield descriptions of the steps, then the plan; disk space is measured at `out`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield "reading the training examples"
        check_trees(recipe)
        check_first_examples(recipe)
        count = sum(1 for _ in examples(recipe.data.train, "train")())
        stride = max(1, math.ceil(count / MAX_READ_EXAMPLES))
        read = math.ceil(count / stride)
        sampled = recipe if stride == 1 else _sampled(recipe, stride, folder)
        yield "learning sub-words and encoding"
        prepared = prepare(sampled, folder, SINGLE_PROCESS)
        prepared.check_lengths()
        first = epoch_updates(prepared.train.corpus, recipe.training, 0, prepared.train.rows)
        yield "measuring a few updates"
        trial = run_trial(prepared, hardware, _largest(prepared, first))
        parameters = _parameters(prepared)
        recipe = _in_updates(recipe, len(first) * count / read)
        updates = _updates(prepared, first, recipe.training.steps, scale=count / read)
        weights, gpu = BYTES_PER_WEIGHT * parameters.total, hardware.gpu
        free = available_memory() if gpu is None else gpu.free_bytes()
        average = weights if recipe.training.ema_decay else 0
        memory = MemoryEstimate(weights, weights, 2 * weights, average, trial.peak_bytes, free)
        made = (*(folder / "corpus").rglob("*"), *(folder / "pictures").rglob("*"))
        made_bytes = sum(path.stat().st_size for path in made if path.is_file())
        disk = _disk(recipe, weights, int(made_bytes * (count / read)), out)
        found = Examples(
            training=count,
            read=read,
            validation=int(prepared.valid.corpus.examples[-1]) + 1,
            left_out=prepared.left_out["train"],
            source_vocabulary=len(prepared.source),
            target_vocabulary=len(prepared.target),
        )
        yield TrainingPlan(
            parameters=parameters,
            examples=found,
            updates=updates,
            memory=memory,
            time=_duration(recipe.training, updates, trial),
            disk=disk,
            problems=tuple(_problems(memory, disk)),
            notes=tuple(_notes(recipe, prepared, hardware, found, trial)),
        )


def _sampled(recipe: Recipe, stride: int, folder: Path) -> Recipe:
    """A recipe that reads one in `stride` examples."""
    path = folder / "sample.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for each in islice(examples(recipe.data.train, "train")(), 0, None, stride):
            row = {"source": each.source, "target": list(each.targets)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    train = Choice("jsonl", {"path": str(path)})
    return replace(recipe, data=replace(recipe.data, train=train))


def _parameters(prepared: Prepared) -> Parameters:
    sides = {"n_source_tokens": len(prepared.source), "n_target_tokens": len(prepared.target)}
    shapes = shapes_of(prepared.recipe.model, **sides)
    parts = Counter[str]()
    for name, shape in shapes.items():
        parts[name.partition(".")[0]] += math.prod(shape)
    tables = (".E.weight", "source.weight", "target.weight")
    embeddings = sum(math.prod(shape) for name, shape in shapes.items() if name.endswith(tables))
    return Parameters(parts.total(), embeddings, dict(parts))


def _in_updates(recipe: Recipe, per_epoch: float) -> Recipe:
    """The recipe with its epochs counted in updates."""
    training = recipe.training
    if not training.epochs:
        return recipe
    steps = max(1, round(training.epochs * per_epoch))
    return replace(recipe, training=replace(training, steps=steps, epochs=0.0))


def _updates(
    prepared: Prepared, first: list[list[np.ndarray]], steps: int, *, scale: float
) -> Updates:
    corpus = prepared.train.corpus
    batches, per_epoch = list(chain.from_iterable(first)), len(first) * scale
    tokens = sum(int(corpus.target_lengths[batch].sum()) for batch in batches) / len(first)
    epochs, padding = steps / per_epoch, padding_share(corpus, batches)
    return Updates(steps, tokens, len(batches) / len(first), per_epoch, epochs, padding)


def _largest(prepared: Prepared, updates: list[list[np.ndarray]]) -> np.ndarray:
    """The batch with the most numbers in it."""
    sources, targets = prepared.train.corpus.source_lengths, prepared.train.corpus.target_lengths
    return max(
        chain.from_iterable(updates),
        key=lambda rows: len(rows) * int(sources[rows].max() + targets[rows].max()),
    )


def _duration(training: TrainingRecipe, updates: Updates, trial: Trial) -> Duration:
    # the last update is validated too, and the mean of checkpoints once more
    count = math.ceil(training.steps / training.validate_every) + (training.average_last > 1)
    if trial.seconds_per_token is None or trial.seconds_per_validation is None:
        return Duration(0, None, None, count)
    per_update, each = trial.seconds_per_token * updates.target_tokens, trial.seconds_per_validation
    total = per_update * updates.steps + each * count
    return Duration(trial.updates, per_update, total, count, each)


def _disk(recipe: Recipe, model: int, corpus: int, out: Path) -> Disk:
    training = recipe.training
    # weights, two numbers of the optimiser for each, and maybe their average
    checkpoint = (4 if training.ema_decay else 3) * model
    made = math.ceil(training.steps / training.checkpoint_every)
    # beside those kept, the best, and the newest, which is whole before an old one goes
    n_checkpoints = min(made, max(training.keep_checkpoints, training.average_last) + 2)
    corpora = corpus * (2 if recipe.tokens.dropout else 1)
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    total, free = n_checkpoints * checkpoint + model + corpora, shutil.disk_usage(there).free
    return Disk(checkpoint, n_checkpoints, model, corpora, total, free)


def _problems(memory: MemoryEstimate, disk: Disk) -> Iterator[str]:
    if memory.peak is None:
        yield (
            "memory: an update does not fit. Lower training.target_tokens_per_batch, which changes "
            "nothing but memory, or take a smaller model."
        )
    elif memory.peak + memory.average > memory.available:
        yield (
            f"memory: {_gib(memory.peak + memory.average)} are needed, {_gib(memory.available)} "
            "are free. Lower training.target_tokens_per_batch, or take a smaller model."
        )
    if disk.total > disk.available:
        yield (
            f"disk: {_gib(disk.total)} are needed, {_gib(disk.available)} are free. Lower "
            "training.keep_checkpoints, or write elsewhere."
        )


def _notes(
    recipe: Recipe, prepared: Prepared, hardware: Hardware, found: Examples, trial: Trial
) -> Iterator[str]:
    if hardware.threads is not None:
        yield f"measured on {hardware.threads}"
    if found.read < found.training:
        yield (
            f"estimated from a sample: {found.read:,} of {found.training:,} training examples, "
            "evenly spread; the sub-words were learned from it too"
        )
    if trial.splits:
        yield "the largest batch does not fit into memory at once; it is cut until it does"
    yield from task_of(recipe).plan_notes(recipe)
    if recipe.tokens.dropout:
        yield "sub-word dropout cuts texts into more pieces in every epoch than were counted here"
    yield from idle_settings(recipe)
    yield from prepared.data_notes()


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def run_trial(prepared: Prepared, hardware: Hardware, largest: np.ndarray) -> Trial:
    """Update a model a few times, `largest` at last, and drop it; on a CPU in its own process."""
    if (gpu := hardware.gpu) is not None:
        # no fork here, since a fork cannot use its parent's GPU
        held = gpu.held_bytes()
        try:
            found = _timed_trial(prepared, hardware, largest)
        except Exception as error:
            if lacks_memory(error):
                return Trial()
            raise
        return replace(found, peak_bytes=gpu.peak_bytes() - held)
    with hardware.on_threads():
        threads, free = torch.get_num_threads(), available_memory()

    def run() -> dict[str, Any]:
        torch.set_num_threads(threads)
        limit_memory(free)
        before = start_counting()
        found = _timed_trial(prepared, hardware, largest)
        return replace(found, peak_bytes=resident("VmHWM") - before).__dict__

    return Trial(**(in_a_fork(run) or {}))


def _timed_trial(prepared: Prepared, hardware: Hardware, largest: np.ndarray) -> Trial:
    """Time some updates after the first, one on the largest batch, and some validations."""
    recipe, corpus = prepared.recipe, prepared.train.corpus
    model = hardware.place(prepared.build())
    check_reaches_all_weights(model, prepared, hardware)
    optimiser = make_optimiser(model, recipe.training)
    endless = replace(recipe, training=replace(recipe.training, steps=1 << 30))

    def updates(material: Callable[[int], Material]) -> Iterator[Step]:
        return learn(model, optimiser, material, endless, Progress(), hardware=hardware)

    steps = updates(prepared.of_epoch)
    next(steps)
    done = _repeated(lambda: next(steps), TIMED_UPDATES_S, least=2, most=MAX_TIMED_UPDATES)
    last = next(updates(lambda _: Material(corpus, largest)))
    took = _repeated(
        lambda: seconds_per_validation(model, prepared, hardware),
        TIMED_VALIDATIONS_S,
        least=1,
        most=MAX_TIMED_VALIDATIONS,
    )
    return Trial(
        updates=len(done),
        seconds_per_token=median(step.seconds / step.target_tokens for step in done),
        splits=last.splits,
        seconds_per_validation=median(took),
    )


def _repeated(work: Callable[[], T], seconds: float, *, least: int, most: int) -> list[T]:
    """The results of work that is repeated for this time, within the limits on its number."""
    found: list[T] = []
    begun = time.perf_counter()
    while len(found) < least or (time.perf_counter() - begun < seconds and len(found) < most):
        found.append(work())
    return found
