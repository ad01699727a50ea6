"""Logits → log-probabilities of the few tokens that matter, with as few passes as there can be.

A vocabulary is large and a beam is small: the best tokens are found among the blocks with the
largest maxima, and only these are normalised.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.links import wide
from regard.decoding.rules import Rule, Written
from regard.models.stepper import EOS

BLOCK = 64
"""Tokens that are looked at together."""


class Best(NamedTuple):
    """The best next tokens of each row, best first."""

    tokens: Int[Tensor, "r c"]
    scores: Float[Tensor, "r c"]
    """Their log-probabilities, as the rules changed them."""
    own: Float[Tensor, "r c"]
    """Their log-probabilities, as the model has them."""


class Judged(NamedTuple):
    """Every next token of each row."""

    scores: Float[Tensor, "r v"]
    """Log-probabilities, as the rules changed them."""
    own: Float[Tensor, "r v"]
    """Log-probabilities, as the model has them."""

    def best(self, count: int) -> Best:
        """The best tokens."""
        scores, tokens = largest(self.scores, count)
        return Best(tokens, scores, self.own.gather(1, tokens))


def judge(
    logits: Float[Tensor, "r v"], rules: Sequence[Rule], written: Written, *, may_end: bool
) -> Judged:
    """Normalise, then let the rules speak. Padding and begin are never written."""
    own = wide(logits)
    own = own - own.logsumexp(-1, keepdim=True)
    scores = own
    for rule in rules:
        scores = rule(scores, written)
    scores = scores.clone() if scores is own else scores
    scores[:, _closed(may_end=may_end)] = -torch.inf
    return Judged(scores, own)


def best_next(logits: Float[Tensor, "r v"], count: int, *, may_end: bool) -> Best:
    """The best tokens where there is no rule. The logits are used up."""
    closed = _closed(may_end=may_end)
    if logits.is_cuda and logits.shape[1] > 4 * BLOCK * count:
        return _best_on_gpu(logits, count, closed.stop)
    logits = wide(logits)
    kept = logits[:, closed].clone()
    logits[:, closed] = -torch.inf
    scores, tokens = largest(logits, count)
    # what may not be written has its share of the probability all the same
    logits[:, closed] = kept
    scores = scores - _log_normaliser(logits)
    return Best(tokens, scores, scores)


def _best_on_gpu(logits: Float[Tensor, "r v"], count: int, closed: int) -> Best:
    """The same by one pass over the logits."""
    # Triton comes with torch only where there is a GPU
    from regard.decoding.gpu.vocabulary_kernel import summarise

    lse, maxima = summarise(logits, closed=closed, block=BLOCK)
    chosen = maxima.topk(count).indices
    tokens = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=logits.device)).flatten(1)
    is_open = (tokens >= closed) & (tokens < logits.shape[1])
    near = wide(logits.gather(1, tokens.clamp(max=logits.shape[1] - 1)))
    scores, at = near.where(is_open, -torch.inf).topk(count)
    scores = scores - lse
    return Best(tokens.gather(1, at), scores, scores)


def largest(
    scores: Float[Tensor, "r v"], count: int
) -> tuple[Float[Tensor, "r c"], Int[Tensor, "r c"]]:
    """The largest numbers of each row and where they stand: `topk`, for few of many."""
    n_blocks = scores.shape[1] // BLOCK
    if n_blocks <= 4 * count:
        values, places = scores.topk(min(count, scores.shape[1]))
        return values, places
    whole = n_blocks * BLOCK
    blocks = scores[:, :whole].unflatten(1, (n_blocks, BLOCK))
    # no number outside the blocks with the largest maxima can be among the largest
    chosen = blocks.amax(-1).topk(count).indices
    near = blocks.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if whole < scores.shape[1]:
        rest = torch.arange(whole, scores.shape[1], device=scores.device)
        near = torch.cat([near, scores[:, whole:]], 1)
        places = torch.cat([places, rest.expand(len(scores), -1)], 1)
    values, at = near.topk(count)
    return values, places.gather(1, at)


def _closed(*, may_end: bool) -> slice:
    """Padding, begin, and while an answer is too short the end: tokens 0, 1 and 2."""
    return slice(0, EOS if may_end else EOS + 1)


def _log_normaliser(logits: Float[Tensor, "r v"]) -> Float[Tensor, "r 1"]:
    """The logarithm of each row's sum of exponentials; the logits are used up, to save a copy."""
    top = logits.amax(-1, keepdim=True)
    return logits.sub_(top).exp_().sum(-1, keepdim=True).log_().add_(top)
