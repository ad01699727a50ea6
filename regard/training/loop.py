"""The loop, visible: a generator of updates. Whoever calls it prints, plots, saves or stops.

    for step in learn(model, optimiser, corpus, recipe, progress): …

An update learns from `target_tokens_per_update` target tokens, whatever fits into memory at once:
its gradient is the sum over micro-batches of the loss divided by all tokens of the update.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import Batch, collate, epoch_batches
from regard.data.corpus import Corpus
from regard.models import Lesson, Transformer
from regard.training.checkpoints import Progress
from regard.training.hardware import Hardware
from regard.training.losses import Loss, token_loss
from regard.training.recipes import Recipe, TrainingRecipe
from regard.training.schedules import SCHEDULES, Pace

Rows = np.ndarray
CPU = Hardware()


@dataclass(frozen=True)
class Step:
    """What one update did."""

    progress: Progress
    """Where training stands after it."""
    nll: float
    """Negative log-likelihood per target token, without smoothing, before the update."""
    learning_rate: float
    gradient_norm: float
    source_tokens: int
    target_tokens: int
    seconds: float


def learn(
    model: Transformer,
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
    training = recipe.training
    pace = Pace(
        peak=training.learning_rate,
        warmup_steps=training.warmup_steps,
        steps=training.steps,
        d_model=recipe.model.d_model,
    )
    while progress.step < training.steps:
        updates = epoch_updates(corpus, training, progress.epoch, rows)
        for micro in updates[progress.update : progress.update + training.steps - progress.step]:
            start = time.perf_counter()
            rate = SCHEDULES[training.schedule](progress.step + 1, pace)
            for group in optimiser.param_groups:
                group["lr"] = rate
            batches = [collate(corpus, each) for each in micro]
            optimiser.zero_grad(set_to_none=True)
            nll = accumulate(model, batches, smoothing=training.label_smoothing, hardware=hardware)
            limit = training.clip_norm or math.inf
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), limit))
            optimiser.step()
            n_target = sum(int(b.target_lengths.sum()) for b in batches)
            progress = replace(
                progress,
                step=progress.step + 1,
                update=progress.update + 1,
                target_tokens=progress.target_tokens + n_target,
            )
            yield Step(
                progress=progress,
                nll=nll,
                learning_rate=rate,
                gradient_norm=norm,
                source_tokens=sum(int(b.source_lengths.sum()) for b in batches),
                target_tokens=n_target,
                seconds=time.perf_counter() - start,
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
    tokens = 0
    for batch in batches:
        more = int(corpus.target_lengths[batch].sum())
        # an update ends where its tokens are nearest to what was asked for
        if group and tokens + more / 2 > training.target_tokens_per_update:
            updates.append(group)
            group, tokens = [], 0
        group.append(batch)
        tokens += more
    # what is left over is learned from too: no example is dropped
    return [*updates, group] if group else updates


def accumulate(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    smoothing: float,
    hardware: Hardware = CPU,
) -> float:
    """Add the gradient of one update to the model; the mean loss per token comes back."""
    model.train()
    tokens = sum(int(batch.target_lengths.sum()) for batch in batches)
    lesson = hardware.compiled(model.lesson)
    nll: Tensor | float = 0.0
    for batch in batches:
        loss = _loss(lesson, model.output, batch, hardware, smoothing=smoothing, scale=1 / tokens)
        loss.total.backward()
        nll = nll + loss.nll.detach()
    return float(nll) / tokens


def _loss(
    lesson: Callable[[Tensor, Tensor], Lesson],
    output: nn.Linear,
    batch: Batch,
    hardware: Hardware,
    *,
    smoothing: float = 0.0,
    scale: float = 1.0,
) -> Loss:
    source, target = hardware.put(batch.source), hardware.put(batch.target)
    with hardware.products():
        hidden, gold = lesson(source, target)
        return token_loss(hidden, output.weight, gold, smoothing=smoothing, scale=scale)


@torch.no_grad()
def mean_loss(
    model: Transformer,
    corpus: Corpus,
    *,
    target_tokens: int,
    hardware: Hardware = CPU,
    rows: Rows | None = None,
) -> float:
    """Negative log-likelihood per token over a whole corpus, without smoothing."""
    model.eval()
    total, tokens = 0.0, 0
    for each in epoch_batches(corpus, target_tokens=target_tokens, seed=0, epoch=0, rows=rows):
        batch = collate(corpus, each)
        total += float(_loss(model.lesson, model.output, batch, hardware).nll)
        tokens += int(batch.target_lengths.sum())
    return total / tokens


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
