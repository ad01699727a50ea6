"""Planning: what a recipe will take, before its first step.

Sub-words and batches are made as training makes them, in a folder that is gone afterwards. A few
updates on real batches and a validation give the time, and an update on the largest batch gives the
memory. From a corpus of very many examples only some are read, evenly spread; the plan says so.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from regard.choices import Choice
from regard.data.batches import padding_share
from regard.hardware.hardware import Hardware
from regard.hardware.memory import available_memory
from regard.models import shapes_of
from regard.recipes.idle_settings import idle_settings
from regard.recipes.recipe import Recipe, TrainingRecipe, examples
from regard.runs.trial import Tried, try_a_little
from regard.tasks import task_of
from regard.tasks.trees import check_trees
from regard.training.loop import epoch_updates
from regard.training.preflight import check_beginnings
from regard.training.preparation import Prepared, prepare
from regard.training.workers import ALONE

SAMPLE = 200_000
"""Examples that are read at most."""
NUMBER = 4
"""Bytes of a weight."""


@dataclass(frozen=True)
class Doing:
    """What is being done now."""

    text: str


@dataclass(frozen=True)
class Parameters:
    """How many numbers are learned."""

    total: int
    embeddings: int
    parts: dict[str, int]
    """By the model's own parts."""


@dataclass(frozen=True)
class Examples:
    """What is learned from."""

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
    """How an epoch falls into updates, and updates into batches that are in memory at once."""

    steps: int
    target_tokens: float
    """Of one update, on average."""
    batches: float
    """Of one update, on average."""
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
    """Bytes."""

    checkpoint: int
    checkpoints: int
    """How many there are at most, with the one that is being written."""
    model: int
    corpus: int
    total: int
    available: int


@dataclass(frozen=True)
class Plan:
    """What a training will take, and what is against it."""

    parameters: Parameters
    examples: Examples
    updates: Updates
    memory: MemoryEstimate
    time: Duration
    disk: Disk
    problems: tuple[str, ...]
    """What will not fit."""
    notes: tuple[str, ...]


def plan(recipe: Recipe, *, hardware: Hardware, out: Path) -> Iterator[Doing | Plan]:
    """Say what is being done, and at last the plan.

    Args:
        recipe: what would be trained.
        hardware: where.
        out: where the run would be written; only its free space is looked at.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield Doing("reading the training examples")
        check_trees(recipe)
        check_beginnings(recipe)
        count = sum(1 for _ in examples(recipe.data.train, "train")())
        sampled = _sampled(recipe, count, folder)
        yield Doing("learning sub-words and encoding")
        prepared = prepare(sampled, folder, ALONE)
        prepared.check_lengths()
        corpus, rows = prepared.train.corpus, prepared.train.rows
        first = epoch_updates(corpus, recipe.training, 0, rows)
        yield Doing("measuring a few updates")
        tried = try_a_little(prepared, hardware, _largest(prepared, first))
        read = math.ceil(count / _stride(count))
        parameters = _parameters(prepared)
        updates = _updates(prepared, first, scale=count / read)
        memory = _memory(recipe, parameters.total, tried, hardware)
        made = sum(_bytes_in(folder / name) for name in ("corpus", "pictures"))
        disk = _disk(recipe, parameters.total, made, count / read, out)
        yield Plan(
            parameters=parameters,
            examples=Examples(
                training=count,
                read=read,
                validation=int(prepared.valid.corpus.examples[-1]) + 1,
                left_out=prepared.left_out["train"],
                source_vocabulary=len(prepared.source),
                target_vocabulary=len(prepared.target),
            ),
            updates=updates,
            memory=memory,
            time=_duration(recipe.training, updates, tried),
            disk=disk,
            problems=tuple(_problems(memory, disk)),
            notes=tuple(_notes(recipe, hardware, count, read, tried)),
        )


def _stride(count: int) -> int:
    return max(1, math.ceil(count / SAMPLE))


def _sampled(recipe: Recipe, count: int, folder: Path) -> Recipe:
    """The recipe itself, or one that reads every so-many-th example, if there are very many."""
    stride = _stride(count)
    if stride == 1:
        return recipe
    path = folder / "sample.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for each in islice(examples(recipe.data.train, "train")(), 0, None, stride):
            row = {"source": each.source, "target": list(each.targets)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    train = Choice("jsonl", {"path": str(path)})
    return replace(recipe, data=replace(recipe.data, train=train))


def _parameters(prepared: Prepared) -> Parameters:
    shapes = shapes_of(
        prepared.recipe.model,
        n_source_tokens=len(prepared.source),
        n_target_tokens=len(prepared.target),
    )
    parts: dict[str, int] = {}
    for name, shape in shapes.items():
        part = name.partition(".")[0]
        parts[part] = parts.get(part, 0) + math.prod(shape)
    tables = (".E.weight", "source.weight", "target.weight")
    embeddings = sum(math.prod(shape) for name, shape in shapes.items() if name.endswith(tables))
    return Parameters(sum(parts.values()), embeddings, parts)


def _updates(prepared: Prepared, first: list[list[np.ndarray]], *, scale: float) -> Updates:
    corpus, steps = prepared.train.corpus, prepared.recipe.training.steps
    batches = [batch for update in first for batch in update]
    tokens = sum(int(corpus.target_lengths[batch].sum()) for batch in batches)
    per_epoch = len(first) * scale
    return Updates(
        steps=steps,
        target_tokens=tokens / len(first),
        batches=len(batches) / len(first),
        per_epoch=per_epoch,
        epochs=steps / per_epoch,
        padding=padding_share(corpus, batches),
    )


def _largest(prepared: Prepared, updates: list[list[np.ndarray]]) -> np.ndarray:
    """The batch with the most numbers in it."""
    sources, targets = prepared.train.corpus.source_lengths, prepared.train.corpus.target_lengths

    def numbers(rows: np.ndarray) -> int:
        return len(rows) * int(sources[rows].max() + targets[rows].max())

    return max((batch for update in updates for batch in update), key=numbers)


def _memory(recipe: Recipe, parameters: int, tried: Tried, hardware: Hardware) -> MemoryEstimate:
    weights = NUMBER * parameters
    is_gpu = hardware.device.type == "cuda"
    return MemoryEstimate(
        weights=weights,
        gradients=weights,
        optimiser=2 * weights,
        average=weights if recipe.training.ema_decay else 0,
        peak=tried.peak_bytes,
        available=torch.cuda.mem_get_info(hardware.device)[0] if is_gpu else available_memory(),
    )


def _duration(training: TrainingRecipe, updates: Updates, tried: Tried) -> Duration:
    # the last update is validated too, and the mean of checkpoints once more
    count = math.ceil(training.steps / training.validate_every) + (training.average_last > 1)
    if tried.seconds_per_token is None or tried.seconds_per_validation is None:
        return Duration(0, None, None, count)
    per_update, each = tried.seconds_per_token * updates.target_tokens, tried.seconds_per_validation
    return Duration(
        tried.updates, per_update, per_update * updates.steps + each * count, count, each
    )


def _disk(recipe: Recipe, parameters: int, corpus: int, scale: float, out: Path) -> Disk:
    training, model = recipe.training, NUMBER * parameters
    # weights and two numbers of the optimiser for each
    checkpoint = 3 * model + (model if training.ema_decay else 0)
    made = math.ceil(training.steps / training.checkpoint_every)
    kept = max(training.keep_checkpoints, training.average_last) + 1
    # the newest is whole before an old one goes
    n_checkpoints = min(made, kept + 1)
    corpora = int(corpus * scale) * (2 if recipe.tokens.dropout else 1)
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    return Disk(
        checkpoint=checkpoint,
        checkpoints=n_checkpoints,
        model=model,
        corpus=corpora,
        total=n_checkpoints * checkpoint + model + corpora,
        available=shutil.disk_usage(there).free,
    )


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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
    recipe: Recipe, hardware: Hardware, count: int, read: int, tried: Tried
) -> Iterator[str]:
    if hardware.threads is not None:
        yield f"measured on {hardware.threads}"
    if read < count:
        yield (
            f"estimated from a sample: {read:,} of {count:,} training examples, evenly spread; the "
            "sub-words were learned from it too"
        )
    if tried.splits:
        yield "the largest batch does not fit into memory at once; it is cut until it does"
    yield from task_of(recipe).plan_notes(recipe)
    if recipe.tokens.dropout:
        yield "sub-word dropout cuts texts into more pieces in every epoch than were counted here"
    yield from idle_settings(recipe)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
