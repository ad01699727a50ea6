"""How surprised a run is by each reference, row by row: its nats, its tokens, and its length."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from regard.data.batches import collate, epoch_batches
from regard.data.corpus import Corpus
from regard.data.kinds import PAD
from regard.hardware.hardware import Hardware
from regard.models import Model
from regard.training.accumulation import CPU
from regard.training.losses import token_losses


@final
@dataclass(frozen=True)
class RowLosses:
    """One number for each row that was read, in the order of the corpus."""

    nats: tuple[float, ...]
    tokens: tuple[int, ...]
    """Target tokens that were asked for."""
    source_tokens: tuple[int, ...]


@torch.no_grad()
def row_losses(
    model: Model,
    corpus: Corpus,
    rows: np.ndarray,
    *,
    target_tokens: int,
    hardware: Hardware = CPU,
) -> RowLosses:
    """Read every row once.

    Args:
        model: what is surprised.
        corpus: where the rows are.
        rows: which of them.
        target_tokens: target tokens in a batch, padding counted.
        hardware: where, and how exactly.
    """
    model.eval()
    nats: dict[int, float] = {}
    tokens: dict[int, int] = {}
    for each in epoch_batches(corpus, target_tokens=target_tokens, seed=0, epoch=0, rows=rows):
        batch = collate(corpus, each)
        with hardware.products():
            hidden, gold = model.lesson(hardware.put(batch.source), hardware.put(batch.target))
            _, nll = token_losses(hidden, model.output.weight, gold)
        nats.update(zip(each.tolist(), nll.double().sum(1).tolist(), strict=True))
        tokens.update(zip(each.tolist(), (gold != PAD).sum(1).tolist(), strict=True))
    lengths, order = corpus.source_lengths, rows.tolist()
    return RowLosses(
        tuple(nats[row] for row in order),
        tuple(tokens[row] for row in order),
        tuple(int(lengths[row]) for row in order),
    )
