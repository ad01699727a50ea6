"""Accumulating: the gradient of one update, from batches that are in memory one after another.

    gradient = Σ over batches of ∂(loss of the batch / tokens of the update)

A batch that does not fit into memory is cut in two, as often as it takes, under the same division:
what is learned stays the same, and nothing is left out. The update begins anew from the random
numbers it began with, so that no part of a failed attempt remains in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.data.batches import Batch
from regard.errors import LengthError
from regard.hardware.hardware import Hardware
from regard.hardware.random_states import random_states, restore
from regard.models import Model
from regard.training.objectives import Objective, Smoothed

CPU = Hardware()


@dataclass(frozen=True)
class Gathered:
    """What the batches of one update gave, beside the gradient."""

    nll: Tensor | float
    """Negative log-likelihood, summed over the tokens asked for; maybe still on its way from a
    GPU."""
    asked: Tensor | float
    """How many tokens those were; of a text with hidden words these alone."""
    splits: int
    """How many cuts it took for every piece to fit into memory."""


@final
class Accumulator:
    """Gathers the gradient of one update after another, in pieces that fit into memory.

    Args:
        model: what learns.
        objective: what is minimised.
        hardware: where, and how exactly.
    """

    def __init__(self, model: Model, objective: Objective, hardware: Hardware) -> None:
        self.model, self.objective, self.hardware = model, objective, hardware
        self.work = hardware.recorder(self._work)
        self.too_much: int | None = None
        """The fewest tokens, padding counted, that did not fit; later batches stay below."""

    def gather(self, batches: Sequence[Batch], tokens: int) -> Gathered:
        """Leave the gradient of these batches in the model.

        Args:
            batches: what to learn from; none if other processes have them all.
            tokens: target tokens of the whole update.
        """
        self.model.train()
        pieces = [piece for batch in batches for piece in self._fitting(batch)]
        before = random_states(self.hardware.device)
        while True:
            self._zero()
            sums, failed = self._attempt(pieces, tokens)
            if failed is None:
                return Gathered(sums[0], sums[1], len(pieces) - len(batches))
            # recordings hold memory as well; without them the piece may fit
            if not self.work.forget():
                self._remember(pieces[failed])
                pieces[failed : failed + 1] = _halves(pieces[failed])
            restore(before, self.hardware.device)

    def _zero(self) -> None:
        """No gradient; where work is replayed it has a fixed place."""
        self.model.zero_grad(set_to_none=not self.hardware.replays)
        if self.hardware.replays:
            for parameter in self.model.parameters():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)

    def _attempt(self, pieces: Sequence[Batch], tokens: int) -> tuple[Tensor, int | None]:
        """Sum up until a piece does not fit; its number comes back with what came before."""
        scale = self.hardware.put(torch.tensor(1 / tokens, dtype=torch.float64))
        sums = torch.zeros(2, device=self.hardware.device)
        for number, piece in enumerate(pieces):
            source, target = self.hardware.put(piece.source), self.hardware.put(piece.target)
            try:
                sums = sums + self.work(source, target, scale)
            except torch.OutOfMemoryError:
                return sums, number
        return sums, None

    def _work(self, source: Tensor, target: Tensor, scale: Tensor) -> Tensor:
        """Add one piece's gradient; its loss comes back, and of how many tokens it is."""
        with self.hardware.products():
            loss = self.objective(self.model.lesson, self.model.output, source, target, scale=scale)
        loss.total.backward()
        return torch.stack([loss.nll.detach(), loss.asked.to(loss.nll.dtype)])

    def _remember(self, piece: Batch) -> None:
        if len(piece.rows) == 1:
            raise LengthError(
                f"training: an example of {int(piece.source_lengths[0])} source and "
                f"{int(piece.target_lengths[0])} target tokens does not fit into the memory of "
                f"{self.hardware.device}, though it was alone there. Lower data.max_tokens, or "
                "take a smaller model; a smaller training.target_tokens_per_batch cannot help."
            )
        size = _padded_tokens(piece)
        self.too_much = size if self.too_much is None else min(size, self.too_much)
        if self.hardware.device.type == "cuda":
            torch.cuda.empty_cache()

    def _fitting(self, batch: Batch) -> list[Batch]:
        """The batch in pieces smaller than what is known not to fit."""
        if self.too_much is None or len(batch.rows) == 1 or _padded_tokens(batch) < self.too_much:
            return [batch]
        return [piece for half in _halves(batch) for piece in self._fitting(half)]


def accumulate(
    model: Model,
    batches: Sequence[Batch],
    *,
    smoothing: float,
    hardware: Hardware = CPU,
) -> Tensor | float:
    """Leave the gradient of one update in the model; the loss per token asked for comes back."""
    tokens = sum(int(batch.target_lengths.sum()) for batch in batches)
    accumulator = Accumulator(model, Smoothed(smoothing), hardware)
    gathered = accumulator.gather(batches, tokens)
    return gathered.nll / gathered.asked


def _padded_tokens(batch: Batch) -> int:
    return batch.source.numel() + batch.target.numel()


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.rows) // 2
    return [_part(batch, slice(middle)), _part(batch, slice(middle, None))]


def _part(batch: Batch, rows: slice) -> Batch:
    return Batch(
        batch.source[rows],
        batch.target[rows],
        batch.source_lengths[rows],
        batch.target_lengths[rows],
        batch.rows[rows],
    )
