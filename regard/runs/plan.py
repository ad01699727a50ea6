"""The plan of a training: the memory, time and disk space that a recipe will take.

Sub-words and batches are made as training makes them, in a temporary folder. A few updates, a
validation and a checkpoint give the time (plan_trial.py), an update on the largest batch the
memory. From a corpus of very many examples only some are read, evenly spread; the plan says so.
"""

import json
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from regard.choices import Choice
from regard.data.batches import padding_share
from regard.errors import counted
from regard.hardware.hardware import Hardware
from regard.hardware.memory import available_memory
from regard.models import shapes_of
from regard.recipes.idle_settings import idle_settings
from regard.recipes.recipe import Recipe, examples
from regard.recipes.training_recipe import TrainingRecipe
from regard.runs.plan_trial import Trial, run_trial
from regard.tasks import task_of
from regard.tasks.trees import check_trees
from regard.training.loop import epoch_updates
from regard.training.preparation import Prepared, check_first_examples, prepare
from regard.training.validation import excess_note
from regard.training.workers import SINGLE_PROCESS

MAX_READ_EXAMPLES = 200_000
BYTES_PER_WEIGHT = 4


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
    """Seconds, from the start of the process to its end."""

    measured_updates: int
    per_update: float | None
    total: float | None
    """All of the parts below, and the updates."""
    start: float = 0.0
    """Until the process has read the recipe."""
    preparing: float = 0.0
    """Reading, learning sub-words and encoding; then the model, and trying numbers of threads."""
    validations: int = 0
    """How many there are, if training.patience does not end the training before."""
    per_validation: float | None = None
    """Where answers are as long as the references; a model that cannot end them takes longer."""
    decoded_examples: int = 0
    """How many examples a validation decodes."""
    checkpoints: int = 0
    per_checkpoint: float | None = None
    finishing: float = 0.0
    """The mean of checkpoints, the last weights, the report and the card."""


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


def plan(
    recipe: Recipe, *, hardware: Hardware, out: Path, start_s: float = 0.0
) -> Iterator[str | TrainingPlan]:
    """Yield descriptions of the steps, then the plan; disk space is measured at `out`.

    `start_s` is the time that a process takes before it has read the recipe.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield "reading the training examples"
        check_trees(recipe)
        check_first_examples(recipe)
        count = sum(1 for _ in examples(recipe.data.train, "train")())
        stride = max(1, math.ceil(count / MAX_READ_EXAMPLES))
        read = math.ceil(count / stride)
        sampled = recipe if stride == 1 else _sampled(recipe, stride, folder)
        yield f"learning sub-words and encoding {counted(read, 'example')}"
        begun = time.perf_counter()
        prepared = prepare(sampled, folder, SINGLE_PROCESS)
        prepared.check_lengths()
        preparing = (time.perf_counter() - begun) * count / read
        first = epoch_updates(prepared.train.corpus, recipe.training, 0, prepared.train.rows)
        trial = yield from run_trial(prepared, hardware, _largest(prepared, first))
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
        duration = _duration(recipe.training, updates, trial, start_s, preparing)
        yield TrainingPlan(
            parameters=parameters,
            examples=found,
            updates=updates,
            memory=memory,
            time=duration,
            disk=disk,
            problems=tuple(_problems(memory, disk)),
            notes=tuple(_notes(recipe, prepared, found, trial, duration)),
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


def _duration(
    training: TrainingRecipe, updates: Updates, trial: Trial, start: float, preparing: float
) -> Duration:
    count, n_checkpoints = training.n_validations, n_checkpoints_of(training)
    if trial.seconds_per_token is None or trial.validation is None:
        return Duration(0, None, None, start, preparing, count, checkpoints=n_checkpoints)
    per_update = trial.seconds_per_token * updates.target_tokens
    preparing += trial.model_s + trial.threads_s + trial.per_epoch_s * math.ceil(updates.epochs)
    decoded = trial.validation.chosen(training, training.validation_seconds(per_update))
    each = trial.validation.seconds(decoded)
    # the mean is read back from whole checkpoints, whose largest part is the optimiser's
    finishing = trial.checkpoint_s * (1 + training.average_last / 3) + trial.finishing_s
    parts = (
        start, preparing, per_update * updates.steps, each * count,
        trial.checkpoint_s * n_checkpoints, finishing,
    )  # fmt: skip
    return Duration(
        measured_updates=trial.updates,
        per_update=per_update,
        total=sum(parts),
        start=start,
        preparing=preparing,
        validations=count,
        per_validation=each,
        decoded_examples=decoded,
        checkpoints=n_checkpoints,
        per_checkpoint=trial.checkpoint_s,
        finishing=finishing,
    )


def n_checkpoints_of(training: TrainingRecipe) -> int:
    """How many checkpoints are written, the last update's too."""
    return math.ceil(training.steps / training.checkpoint_every)


def _disk(recipe: Recipe, model: int, corpus: int, out: Path) -> Disk:
    training = recipe.training
    # weights, what the optimiser remembers of each, and maybe their average
    held = 1 + training.optimiser_recipe().n_numbers + bool(training.ema_decay)
    checkpoint = held * model
    made = n_checkpoints_of(training)
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
    recipe: Recipe, prepared: Prepared, found: Examples, trial: Trial, took: Duration
) -> Iterator[str]:
    if trial.threads:
        yield f"measured on {trial.threads}"
    if found.read < found.training:
        yield (
            f"estimated from a sample: {found.read:,} of {found.training:,} training examples, "
            "evenly spread; the sub-words were learned from it too"
        )
    if trial.splits:
        yield "the largest batch does not fit into memory at once; it is cut until it does"
    if took.per_update is not None and took.per_validation is not None:
        note = excess_note(recipe.training, took.per_update, took.per_validation)
        yield from () if note is None else (note,)
    yield from task_of(recipe).plan_notes(recipe)
    if recipe.tokens.dropout:
        yield "sub-word dropout cuts texts into more pieces in every epoch than were counted here"
    yield from idle_settings(recipe)
    yield from prepared.data_notes()


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
