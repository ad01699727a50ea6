"""Corpus losses: the loss of a model on a corpus without smoothing, as one sum or for each row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.data.batches import collate, epoch_batches
from regard.data.corpus import Corpus
from regard.data.subword_kinds import PAD
from regard.errors import DataError
from regard.evaluating.neural_cache import ReadText
from regard.hardware.hardware import CPU, Hardware
from regard.models import Model
from regard.training.losses import Objective, token_loss

ROWS_AT_ONCE = 128
"""How many rows of a text are read together in their order."""


@final
@dataclass(frozen=True)
class RowLosses:
    """One number for each row that was read, in the order of the rows."""

    nats: tuple[float, ...]
    tokens: tuple[int, ...]
    """Target tokens with a loss."""
    source_tokens: tuple[int, ...]


@torch.no_grad()
def summed_loss(
    model: Model,
    corpus: Corpus,
    *,
    target_tokens: int,
    hardware: Hardware = CPU,
    rows: np.ndarray | None = None,
) -> tuple[float, int]:
    """Negative log-likelihood over a corpus, and how many tokens it is summed over.

    A batch has `target_tokens` target tokens, padding counted; without `rows` all are read. The
    model is left in evaluation mode.
    """
    objective, total, n_tokens = Objective(), 0.0, 0
    for _, source, target in _batches(model, corpus, target_tokens, hardware, rows):
        with hardware.products():
            loss = objective(model.loss_inputs, model.output, source, target)
        total, n_tokens = total + float(loss.nll), n_tokens + int(loss.n_tokens)
    if not n_tokens:
        raise DataError(
            "loss: no token of these texts has a loss: no piece of them is in the vocabulary. Give "
            "others, or take tokens of another kind."
        )
    return total, n_tokens


@torch.no_grad()
def row_losses(
    model: Model, corpus: Corpus, rows: np.ndarray, *, target_tokens: int, hardware: Hardware = CPU
) -> RowLosses:
    """The loss of each row in nats, with its tokens and its length."""
    nats: dict[int, float] = {}
    tokens: dict[int, int] = {}
    for each, source, target in _batches(model, corpus, target_tokens, hardware, rows):
        with hardware.products():
            read = model.loss_inputs(source, target)
            hidden, gold = read
            nll = token_loss(hidden, model.output.weight, gold, first=read.first).each
        nats.update(zip(each.tolist(), nll.double().sum(1).tolist(), strict=True))
        tokens.update(zip(each.tolist(), (gold != PAD).sum(1).tolist(), strict=True))
    order, lengths = rows.tolist(), corpus.source_lengths[rows].tolist()
    return RowLosses(
        tuple(nats[row] for row in order), tuple(tokens[row] for row in order), tuple(lengths)
    )


@torch.no_grad()
def read_in_order(
    model: Model, corpus: Corpus, rows: np.ndarray, *, hardware: Hardware = CPU
) -> ReadText:
    """Every token that has a loss, row after row, with its state."""
    model.eval()
    found: list[ReadText] = []
    for first in range(0, len(rows), ROWS_AT_ONCE):
        batch = collate(corpus, rows[first : first + ROWS_AT_ONCE])
        with hardware.products():
            read = model.loss_inputs(hardware.put(batch.source), hardware.put(batch.target))
            hidden, gold = read
            nats = token_loss(hidden, model.output.weight, gold, first=read.first).each
        is_asked = gold != PAD
        states = normalize(hidden[is_asked].float(), dim=-1)
        found.append(ReadText(nats[is_asked].double(), states, gold[is_asked]))
    return ReadText(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _batches(
    model: Model, corpus: Corpus, target_tokens: int, hardware: Hardware, rows: np.ndarray | None
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """The numbers of the rows of each batch, its source and its target."""
    model.eval()
    for each in epoch_batches(corpus, target_tokens=target_tokens, seed=0, epoch=0, rows=rows):
        batch = collate(corpus, each)
        yield each, hardware.put(batch.source), hardware.put(batch.target)
