"""The loop, visible: a generator of updates. Whoever calls it prints, plots, saves or stops.

    for step in learn(model, optimiser, corpus, recipe, progress): …

An update learns from `target_tokens_per_update` target tokens, whatever fits into memory at once
and however many processes share it: its gradient is the sum over micro-batches of the loss divided
by all tokens of the update.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import collate, epoch_batches
from regard.data.corpus import Corpus
from regard.errors import DataError
from regard.hardware.hardware import Hardware
from regard.hardware.memory import keep_freed_memory
from regard.layers import project_all
from regard.models import Model
from regard.recipes.recipe import Recipe, TrainingRecipe
from regard.recipes.schedules import SCHEDULES, Pace
from regard.training.accumulation import CPU, Accumulator, accumulate
from regard.training.checkpoints import Progress
from regard.training.objectives import Smoothed, objective
from regard.training.workers import ALONE, Workers

__all__ = [
    "CPU",
    "Material",
    "Step",
    "accumulate",
    "epoch_updates",
    "learn",
    "learn_by_epoch",
    "make_optimiser",
    "mean_loss",
    "summed_loss",
]

Rows = np.ndarray


@dataclass(frozen=True)
class Step:
    """What one update did."""

    progress: Progress
    """Where training stands after it."""
    loss: Tensor | float
    """As `nll`, but maybe still on its way from a GPU: to read it is to wait for the update."""
    learning_rate: float
    norm: Tensor | float
    """As `gradient_norm`, but maybe still on its way."""
    source_tokens: int
    target_tokens: int
    seconds: float
    splits: int = 0
    """How often a batch was cut in two, since it did not fit into memory."""

    @property
    def nll(self) -> float:
        """Negative log-likelihood per token asked for, without smoothing, before the update."""
        return float(self.loss)

    @property
    def gradient_norm(self) -> float:
        """The length of the gradient, before it was shortened."""
        return float(self.norm)


@dataclass(frozen=True)
class Material:
    """What is learned from in one epoch."""

    corpus: Corpus
    rows: Rows | None = None
    """These rows of the corpus only; all unless given."""

    @property
    def count(self) -> int:
        """How many examples are learned from; one with several references counts as often."""
        return len(self.corpus) if self.rows is None else len(self.rows)


def learn(
    model: Model,
    optimiser: torch.optim.Optimizer,
    corpus: Corpus,
    recipe: Recipe,
    progress: Progress,
    *,
    hardware: Hardware = CPU,
    rows: Rows | None = None,
) -> Iterator[Step]:
    """Update after update, from where `progress` stands to the recipe's last step.

    Args:
        model: what learns.
        optimiser: how it learns; its rate is set here.
        corpus: what it learns from.
        recipe: batches, schedule, length of the training.
        progress: where to go on.
        hardware: where the products are made, and how exactly.
        rows: learn from these rows of the corpus only; from all unless given.
    """
    always = Material(corpus, rows)
    return learn_by_epoch(
        model, optimiser, lambda epoch: always, recipe, progress, hardware=hardware
    )


def learn_by_epoch(
    model: Model,
    optimiser: torch.optim.Optimizer,
    material: Callable[[int], Material],
    recipe: Recipe,
    progress: Progress,
    *,
    hardware: Hardware = CPU,
    workers: Workers = ALONE,
) -> Iterator[Step]:
    """The same, from what `material` gives for each epoch, shared among workers."""
    training = recipe.training
    pace = Pace(
        peak=training.learning_rate,
        warmup_steps=training.warmup_steps,
        steps=training.steps,
        d_model=recipe.model.d_model,
    )
    if hardware.device.type == "cpu":
        keep_freed_memory()
    accumulator = Accumulator(model, objective(training), hardware)
    while progress.step < training.steps:
        now = material(progress.epoch)
        updates = epoch_updates(now.corpus, training, progress.epoch, now.rows)
        if not updates:
            raise DataError("training: there is no example to learn from.")
        for micro in updates[progress.update : progress.update + training.steps - progress.step]:
            start = time.perf_counter()
            rate = SCHEDULES[training.schedule](progress.step + 1, pace)
            for group in optimiser.param_groups:
                group["lr"] = rate
            n_source, n_target = _counted(now.corpus, micro)
            batches = [
                collate(now.corpus, each, pad_to_multiple=hardware.multiple)
                for each in workers.share(micro)
            ]
            gathered = accumulator.gather(batches, n_target)
            workers.sum_gradients(model)
            nll, asked, splits = workers.sums(gathered.nll, gathered.asked, gathered.splits)
            limit = training.clip_norm or math.inf
            norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimiser.step()
            project_all(model)
            progress = replace(
                progress,
                step=progress.step + 1,
                update=progress.update + 1,
                target_tokens=progress.target_tokens + n_target,
            )
            yield Step(
                progress=progress,
                # a batch may hide no word
                loss=nll / torch.as_tensor(asked).clamp(min=1),
                learning_rate=rate,
                norm=norm,
                source_tokens=n_source,
                target_tokens=n_target,
                seconds=time.perf_counter() - start,
                splits=int(splits),
            )
        progress = replace(progress, epoch=progress.epoch + 1, update=0)


def epoch_updates(
    corpus: Corpus, training: TrainingRecipe, epoch: int, rows: Rows | None = None
) -> list[list[Rows]]:
    """The epoch's micro-batches, grouped into updates; a pure function of seed and epoch."""
    batches = epoch_batches(
        corpus,
        target_tokens=training.target_tokens_per_batch,
        seed=training.seed,
        epoch=epoch,
        rows=rows,
    )
    updates: list[list[Rows]] = []
    group: list[Rows] = []
    tokens, lengths = 0, corpus.target_lengths
    for batch in batches:
        more = int(lengths[batch].sum())
        # an update ends where its tokens are nearest to what was asked for
        if group and tokens + more / 2 > training.target_tokens_per_update:
            updates.append(group)
            group, tokens = [], 0
        group.append(batch)
        tokens += more
    # what is left over is learned from too: no example is dropped
    return [*updates, group] if group else updates


def _counted(corpus: Corpus, batches: Sequence[Rows]) -> tuple[int, int]:
    """The source and the target tokens of an update, without padding."""
    rows = np.concatenate(list(batches))
    sides = (corpus.source_begins, corpus.target_begins)
    source, target = (int((begins[rows + 1] - begins[rows]).sum()) for begins in sides)
    return source, target


@torch.no_grad()
def mean_loss(
    model: Model,
    corpus: Corpus,
    *,
    target_tokens: int,
    hardware: Hardware = CPU,
    rows: Rows | None = None,
) -> float:
    """Negative log-likelihood per token that is asked for, over a corpus, without smoothing."""
    total, asked = summed_loss(
        model, corpus, target_tokens=target_tokens, hardware=hardware, rows=rows
    )
    return total / asked


@torch.no_grad()
def summed_loss(
    model: Model,
    corpus: Corpus,
    *,
    target_tokens: int,
    hardware: Hardware = CPU,
    rows: Rows | None = None,
) -> tuple[float, int]:
    """Negative log-likelihood over a whole corpus, and of how many tokens: those asked for."""
    model.eval()
    objective, total, asked = Smoothed(), 0.0, 0
    for each in epoch_batches(corpus, target_tokens=target_tokens, seed=0, epoch=0, rows=rows):
        batch = collate(corpus, each)
        source, target = hardware.put(batch.source), hardware.put(batch.target)
        with hardware.products():
            loss = objective(model.lesson, model.output, source, target)
        total, asked = total + float(loss.nll), asked + int(loss.asked)
    if not asked:
        raise DataError(
            "loss: nothing is asked for in these texts: no piece of them is in the vocabulary. "
            "Give others, or take tokens of another kind."
        )
    return total, asked


def make_optimiser(model: nn.Module, training: TrainingRecipe) -> torch.optim.AdamW:
    """Adam with decoupled decay, which spares biases, norms and other vectors."""
    decays = [p for p in model.parameters() if p.dim() > 1]
    spared = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": decays, "weight_decay": training.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    betas = (training.beta1, training.beta2)
    return torch.optim.AdamW(groups, lr=1.0, betas=betas, eps=training.eps, fused=True)
