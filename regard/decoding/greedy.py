"""Greedy search: always the likeliest next token, until the end token or the length limit.

y[t] = argmax p(y | source, y[:t])
"""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.models.stepping import BOS, EOS, PAD, Stepper


@torch.no_grad()
def greedy(model: Stepper, source: Int[Tensor, "b s"], *, max_tokens: int) -> list[list[int]]:
    """The tokens of each row, without the end token. Finished rows leave the batch."""
    state = model.start(source)
    rows = torch.arange(len(source), device=source.device)
    tokens = torch.full((len(source), 1), BOS, device=source.device)
    out: list[list[int]] = [[] for _ in range(len(source))]
    for _ in range(max_tokens):
        logits, state = model.step(state, tokens)
        # padding and the start token are never written
        logits[:, -1, [PAD, BOS]] = -torch.inf
        best = logits[:, -1].argmax(-1)
        going = best != EOS
        for row, token in zip(rows[going].tolist(), best[going].tolist(), strict=True):
            out[row].append(token)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            state = model.select(state, going.nonzero().squeeze(-1))
        rows, tokens = rows[going], best[going, None]
    return out
