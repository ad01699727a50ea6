"""Accumulation: computes the gradient of one update from several batches in sequence.

    gradient = Σ over batches of ∂(loss of the batch / tokens of the update)

A batch that does not fit into memory is halved until its parts fit, under the same division. The
update then restarts from its first random states, so that a failed attempt leaves no trace.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from regard.data.batches import Batch
from regard.errors import LengthError
from regard.hardware.hardware import Hardware, random_states, restore
from regard.hardware.memory import lacks_gpu_memory
from regard.models import Model
from regard.training.losses import Objective


class Gathered(NamedTuple):
    """The sums over the batches of one update, besides the gradient."""

    nll: Tensor
    """Negative log-likelihood, summed over the tokens with a loss; maybe still on its way."""
    n_tokens: Tensor
    """How many tokens have a loss; in a text with hidden words only these."""
    splits: int
    """How many cuts it took for every piece to fit into memory."""


@final
class Accumulator:
    """Gathers the gradient of one update after another, in pieces that fit into memory."""

    def __init__(self, model: Model, objective: Objective, hardware: Hardware) -> None:
        self.model, self.objective, self.hardware = model, objective, hardware
        self.work = hardware.graphed(self._work)
        self.too_much: int | None = None
        """The fewest tokens, padding counted, that did not fit; later batches stay below."""

    def gather(self, batches: Sequence[Batch], tokens: int, *, loss_scale: float = 1.0) -> Gathered:
        """Leave the gradient of these batches, which may be none, in the model.

        `tokens` is the number of target tokens of the whole update; the gradient is that of the
        loss times `loss_scale`.
        """
        self.model.train()
        pieces = [piece for batch in batches for piece in self._fitting(batch)]
        before = random_states(self.hardware.device)
        while True:
            self._zero()
            sums, failed = self._attempt(pieces, loss_scale / tokens)
            if failed is None:
                return Gathered(sums[0], sums[1], len(pieces) - len(batches))
            # CUDA graphs use memory too; without them the piece may fit
            if not self.work.free():
                self._remember(pieces[failed])
                pieces[failed : failed + 1] = _halves(pieces[failed])
            restore(before, self.hardware.device)

    def _zero(self) -> None:
        """Delete the gradients; if graphs replay the work, set them to zero in place."""
        self.model.zero_grad(set_to_none=not self.hardware.replays)
        if self.hardware.replays:
            for parameter in self.model.parameters():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)

    def _attempt(self, pieces: Sequence[Batch], factor: float) -> tuple[Tensor, int | None]:
        """Sum up until a piece does not fit; the sums, and the number of that piece."""
        scale = self.hardware.number(factor)
        sums = torch.zeros(2, device=self.hardware.device)
        for number, piece in enumerate(pieces):
            source, target = self.hardware.put(piece.source), self.hardware.put(piece.target)
            try:
                sums = sums + self.work(source, target, scale)
            except RuntimeError as error:
                if not lacks_gpu_memory(error):
                    raise
                return sums, number
        return sums, None

    def _work(self, source: Tensor, target: Tensor, scale: Tensor) -> Tensor:
        """Add one piece's gradient, and give its loss and its number of tokens."""
        with self.hardware.products():
            loss = self.objective(
                self.model.loss_inputs, self.model.output, source, target, scale=scale
            )
        loss.total.backward()
        return torch.stack([loss.nll.detach(), loss.n_tokens.to(loss.nll.dtype)])

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
        if self.hardware.gpu is not None:
            self.hardware.gpu.release()

    def _fitting(self, batch: Batch) -> list[Batch]:
        """The batch in pieces smaller than the smallest that did not fit."""
        if self.too_much is None or len(batch.rows) == 1 or _padded_tokens(batch) < self.too_much:
            return [batch]
        return [piece for half in _halves(batch) for piece in self._fitting(half)]


def _padded_tokens(batch: Batch) -> int:
    return batch.source.numel() + batch.target.numel()


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.rows) // 2
    return [
        Batch(*(each[rows] for each in vars(batch).values()))
        for rows in (slice(middle), slice(middle, None))
    ]
