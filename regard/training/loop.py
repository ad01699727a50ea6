"""Loop: a generator of updates, between which the caller prints, plots, saves or stops.

    for step in learn(model, optimiser, lambda epoch: Material(corpus), recipe, progress): …

An update learns from `target_tokens_per_update` target tokens (source tokens, where targets are
labels), whatever fits into memory at once:
its gradient is the sum over all batches and processes of the loss over the update's tokens.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.batches import collate, epoch_batches, too_long
from regard.data.corpus import Corpus
from regard.errors import DataError
from regard.hardware.hardware import CPU, Hardware
from regard.hardware.memory import keep_freed_memory
from regard.layers import project_all
from regard.layers.weighted_branches import branch_weights
from regard.models import Model
from regard.recipes.recipe import Recipe
from regard.recipes.schedules import SCHEDULES, Pace, noam
from regard.recipes.training_recipe import TrainingRecipe
from regard.training.accumulation import Accumulator
from regard.training.checkpoints import Progress
from regard.training.events import Step
from regard.training.loss_scale import LossScale
from regard.training.losses import Objective
from regard.training.workers import SINGLE_PROCESS, Workers

Rows = np.ndarray


@dataclass(frozen=True)
class Material:
    """The training data of one epoch."""

    corpus: Corpus
    rows: Rows | None = None
    """These rows of the corpus only; all unless given."""

    @classmethod
    def within(cls, corpus: Corpus, max_tokens: int) -> "Material":
        """The rows that have at most so many tokens on either side."""
        long = too_long(corpus, max_source=max_tokens, max_target=max_tokens)
        return cls(corpus, np.setdiff1d(np.arange(len(corpus)), long))

    @property
    def used(self) -> Rows:
        """The rows in training; an example has one for each of its references."""
        return np.arange(len(self.corpus)) if self.rows is None else self.rows


def learn(
    model: Model,
    optimiser: torch.optim.Optimizer,
    material: Callable[[int], Material],
    recipe: Recipe,
    progress: Progress,
    *,
    hardware: Hardware = CPU,
    workers: Workers = SINGLE_PROCESS,
) -> Iterator[Step]:
    """Update after update, from where `progress` stands to the recipe's last step.

    `material` gives the data of an epoch, counted from 0; `workers` share each update.
    """
    training = recipe.training
    pace = Pace(
        peak=training.learning_rate,
        warmup_steps=training.warmup_steps,
        steps=training.steps,
        d_model=recipe.model.d_model,
        halve_after=training.halve_after,
        halve_every=training.halve_every,
    )
    of_branches = _branch_pace(recipe)
    if hardware.device.type == "cpu":
        keep_freed_memory()
    accumulator = Accumulator(model, Objective.of(training), hardware)
    if hardware.scales_loss and progress.loss_scale is None:
        progress = replace(progress, loss_scale=LossScale())
    while progress.step < training.steps:
        now = material(progress.epoch)
        updates = epoch_updates(now.corpus, training, progress.epoch, now.rows)
        if not updates:
            raise DataError("training: there is no example to learn from.")
        for micro in updates[progress.update : progress.update + training.steps - progress.step]:
            start = time.perf_counter()
            rate = SCHEDULES[training.schedule](progress.step + 1, pace)
            for group in optimiser.param_groups:
                is_apart = group.get("is_of_branches", False)
                group["lr"] = noam(progress.step + 1, of_branches) if is_apart else rate
            rows, sides = (
                np.concatenate(micro),
                (now.corpus.source_begins, now.corpus.target_begins),
            )
            # without padding
            n_source, n_target = (int((side[rows + 1] - side[rows]).sum()) for side in sides)
            batches = [
                collate(now.corpus, each, pad_to_multiple=hardware.multiple)
                for each in workers.share(micro)
            ]
            scaled = progress.loss_scale if hardware.scales_loss else None
            factor = 1.0 if scaled is None else scaled.factor
            gathered = accumulator.gather(batches, n_target, loss_scale=factor)
            workers.sum_gradients(model)
            nll, n_tokens, splits = workers.sums(gathered.nll, gathered.n_tokens, gathered.splits)
            limit = training.clip_norm or math.inf
            if scaled is not None:
                scaled.unscale(model.parameters())
            norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
            # reading the norm waits for a GPU, which only float16 asks for
            is_skipped = scaled is not None and not bool(norm.isfinite())
            if scaled is not None:
                scaled = scaled.after(progress.step + 1, is_skipped=is_skipped)
            if not is_skipped:
                optimiser.step()
                project_all(model)
            progress = replace(
                progress,
                step=progress.step + 1,
                update=progress.update + 1,
                target_tokens=progress.target_tokens + n_target,
                loss_scale=scaled or progress.loss_scale,
            )
            yield Step(
                progress=progress,
                # a batch may hide no word
                loss=nll / torch.as_tensor(n_tokens).clamp(min=1),
                learning_rate=rate,
                norm=norm,
                source_tokens=n_source,
                target_tokens=n_target,
                seconds=time.perf_counter() - start,
                splits=int(splits),
                is_skipped=is_skipped,
                of=training.steps,
            )
        progress = replace(progress, epoch=progress.epoch + 1, update=0)


def epoch_updates(
    corpus: Corpus, training: TrainingRecipe, epoch: int, rows: Rows | None = None
) -> list[list[Rows]]:
    """The epoch's micro-batches, grouped into updates; a pure function of seed and epoch."""
    seed, limit = training.seed, training.target_tokens_per_batch
    batches = epoch_batches(corpus, target_tokens=limit, seed=seed, epoch=epoch, rows=rows)
    updates: list[list[Rows]] = []
    group: list[Rows] = []
    tokens, lengths = 0, corpus.counted_lengths
    for batch in batches:
        more = int(lengths[batch].sum())
        # an update ends where its tokens are nearest to the recipe's
        if group and tokens + more / 2 > training.target_tokens_per_update:
            updates.append(group)
            group, tokens = [], 0
        group.append(batch)
        tokens += more
    # the last batches are an update too: no example is dropped
    return [*updates, group] if group else updates


def updates_in(epochs: float, material: Material, training: TrainingRecipe) -> int:
    """How many updates so many epochs have, of the last of them perhaps a part; at least one."""

    def count(epoch: int) -> int:
        return len(epoch_updates(material.corpus, training, epoch, material.rows))

    whole = int(epochs)
    part = round((epochs - whole) * count(whole)) if epochs > whole else 0
    return max(1, sum(map(count, range(whole))) + part)


def make_optimiser(model: nn.Module, training: TrainingRecipe) -> torch.optim.Optimizer:
    """The recipe's optimiser; a decay of weights spares biases, norms and other vectors.

    Kappa and alpha are a group of their own where they have a schedule of their own.
    """
    apart = set(branch_weights(model)) if training.branch_learning_rate else set()
    others = [p for p in model.parameters() if p not in apart]
    groups: list[dict[str, Any]] = [
        {
            "params": [p for p in others if p.dim() > 1],
            "weight_decay": training.weight_decay,
        },
        {"params": [p for p in others if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if apart:
        own = [p for p in model.parameters() if p in apart]
        groups.append({"params": own, "weight_decay": 0.0, "is_of_branches": True})
    return training.optimiser_recipe().build(groups, training)


def _branch_pace(recipe: Recipe) -> Pace:
    """The schedule of kappa and alpha's own: noam's over the width by the number of layers."""
    training, spec = recipe.training, recipe.model
    sizes = ("n_encoder_layers", "n_decoder_layers", "n_layers")
    depth = max(int(vars(spec).get(name, 1)) for name in sizes)
    return Pace(
        peak=training.branch_learning_rate,
        warmup_steps=training.branch_warmup_steps,
        steps=training.steps,
        d_model=spec.d_model / depth,
    )
