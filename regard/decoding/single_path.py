"""Walks: each row goes its own way, one token after another, until the end token or the limit."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.lengths import NoPenalty
from regard.decoding.rules import Written
from regard.decoding.sentences import Batch
from regard.decoding.token_scores import Best
from regard.decoding.trellis import Chosen, Trellis
from regard.models.stepper import BOS, EOS, Stepper

WORTHWHILE = 1 / 8
"""Finished sentences leave the batch once they are this share of it: leaving costs a copy."""


@runtime_checkable
class Picker(Protocol):
    """Says which token each row writes next."""

    def __call__(self, logits: Tensor, written: Written) -> Best:
        """One token for each row; the logits are used up."""


def walk(model: Stepper, batch: Batch, n_each: int, pick: Picker) -> list[list[Hypothesis]]:
    """Let `n_each` rows of every sentence walk; their answers, in the order of the rows."""
    device, n = batch.source.device, len(batch.source)
    trellis, state = Trellis(n), model.start(batch.source)
    itself = torch.arange(n_each, device=device)
    state = model.branch(state, torch.zeros(n, n_each, dtype=torch.int64, device=device))
    sentences, most = list(range(n)), batch.most
    written = Written.nothing(n, device).keep(
        torch.arange(n, device=device).repeat_interleave(n_each)
    )
    tokens = torch.full((n * n_each, 1), BOS, device=device)
    total = torch.zeros(n, n_each, device=device)
    for t in range(1, batch.longest + 1):
        logits, state = model.step(state, tokens)
        best = pick(logits[:, -1], written)
        token, own, score = (x.view(total.shape) for x in (best.tokens, best.own, best.scores))
        # a row that is over is no row
        total = total + score
        ends = ((token == EOS) | (most <= t)[:, None]) & (total > -torch.inf)
        trellis.record(sentences, Chosen(token, itself.expand(token.shape), own, total), ends)
        total = total.masked_fill(ends, -torch.inf)
        is_over = (total == -torch.inf).all(1).tolist()
        if all(is_over):
            break
        written = written.then(torch.arange(token.numel(), device=device), token.flatten())
        if sum(is_over) >= WORTHWHILE * len(is_over):
            stay = torch.tensor([i for i, over in enumerate(is_over) if not over], device=device)
            rows = (stay[:, None] * n_each + itself).flatten()
            state, written = model.select(state, rows), written.keep(rows)
            sentences = [sentences[i] for i in stay.tolist()]
            token, total, most = token[stay], total[stay], most[stay]
        tokens = token.reshape(-1, 1)
    return trellis.every(NoPenalty())
