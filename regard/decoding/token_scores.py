"""Token scores: log-probabilities of the best tokens, from logits in as few passes as possible.

A vocabulary is large and a beam is small: the best tokens are found among the blocks with the
largest maxima, and only these are normalised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.links import wide
from regard.decoding.rules import GeneratedTokens, Rule
from regard.models.stepper import EOS

BLOCK = 64
"""Tokens that are looked at together."""

Logits = Float[Tensor, "r v"]


class BestTokens(NamedTuple):
    """The best next tokens of each row, best first."""

    tokens: Int[Tensor, "r c"]
    scores: Float[Tensor, "r c"]
    """Their log-probabilities after the rules."""
    own: Float[Tensor, "r c"]
    """Their log-probabilities by the model alone."""


class TokenScores(NamedTuple):
    """Every next token of each row: its log-probability after the rules, and the model's own."""

    scores: Float[Tensor, "r v"]
    own: Float[Tensor, "r v"]

    def best(self, count: int) -> BestTokens:
        """The best tokens."""
        scores, tokens = largest(self.scores, count)
        return BestTokens(tokens, scores, self.own.gather(1, tokens))


@final
@dataclass(frozen=True)
class Scorer:
    """Scores next tokens. Padding and begin are never written, nor the end before `min_tokens`."""

    rules: Sequence[Rule]
    min_tokens: int

    def best(self, logits: Logits, written: GeneratedTokens, count: int) -> BestTokens:
        """The best tokens; the logits are overwritten."""
        if self.rules:
            return self.every(logits, written).best(count)
        return best_next(logits, count, self._n_closed(written))

    def every(
        self, logits: Logits, written: GeneratedTokens, before: Float[Tensor, "r 1"] | float = 0.0
    ) -> TokenScores:
        """Normalise, apply the rules, and add to what each row had before."""
        own = wide(logits).log_softmax(-1)
        scores = own
        for rule in self.rules:
            scores = rule(scores, written)
        scores = scores + before
        scores[:, : self._n_closed(written)] = -torch.inf
        return TokenScores(scores, own)

    def _n_closed(self, written: GeneratedTokens) -> int:
        """Padding, begin, and while an answer is too short the end: tokens 0, 1 and 2."""
        return EOS if written.tokens.shape[1] >= self.min_tokens else EOS + 1


def is_short(logits: Logits, count: int) -> bool:
    """Whether a vocabulary is so short that blocks of it gain nothing for so many best tokens."""
    return logits.shape[1] // BLOCK <= 4 * count


def best_next(logits: Logits, count: int, n_closed: int) -> BestTokens:
    """The best tokens without rules; the logits are overwritten."""
    if logits.is_cuda and not is_short(logits, count):
        return _best_on_gpu(logits, count, n_closed)
    logits = wide(logits)
    kept = logits[:, :n_closed].clone()
    logits[:, :n_closed] = -torch.inf
    scores, tokens = largest(logits, count)
    # forbidden tokens still count in the normaliser
    logits[:, :n_closed] = kept
    # in place, to save a copy of the vocabulary
    top = logits.amax(-1, keepdim=True)
    scores = scores - logits.sub_(top).exp_().sum(-1, keepdim=True).log_().add_(top)
    return BestTokens(tokens, scores, scores)


def _best_on_gpu(logits: Logits, count: int, n_closed: int) -> BestTokens:
    """The same by one pass over the logits."""
    # Triton comes with torch only where there is a GPU
    from regard.decoding.gpu.vocabulary_kernel import summarise

    lse, maxima = summarise(logits, closed=n_closed, block=BLOCK)
    tokens = _tokens_of(maxima.topk(count).indices)
    is_open = (tokens >= n_closed) & (tokens < logits.shape[1])
    near = wide(logits.gather(1, tokens.clamp(max=logits.shape[1] - 1)))
    scores, at = near.where(is_open, -torch.inf).topk(count)
    scores = scores - lse
    return BestTokens(tokens.gather(1, at), scores, scores)


def largest(scores: Logits, count: int) -> tuple[Float[Tensor, "r c"], Int[Tensor, "r c"]]:
    """The largest numbers of each row and where they stand: `topk`, for few of many."""
    n_blocks = scores.shape[1] // BLOCK
    if is_short(scores, count):
        values, places = scores.topk(min(count, scores.shape[1]))
        return values, places
    whole = n_blocks * BLOCK
    blocks = scores[:, :whole].unflatten(1, (n_blocks, BLOCK))
    # no number outside the blocks with the largest maxima can be among the largest
    chosen = blocks.amax(-1).topk(count).indices
    near = blocks.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    places = _tokens_of(chosen)
    if whole < scores.shape[1]:
        rest = torch.arange(whole, scores.shape[1], device=scores.device)
        near = torch.cat([near, scores[:, whole:]], 1)
        places = torch.cat([places, rest.expand(len(scores), -1)], 1)
    values, at = near.topk(count)
    return values, places.gather(1, at)


def _tokens_of(blocks: Int[Tensor, "r c"]) -> Int[Tensor, "r cb"]:
    """Every token of some blocks."""
    return (blocks[..., None] * BLOCK + torch.arange(BLOCK, device=blocks.device)).flatten(1)
