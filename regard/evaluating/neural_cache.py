"""Neural cache: words that followed where a language model was in a like state become likelier.

    p_cache(w at t) = Σ_{i = t - size}^{t - 1} softmax_i(θ h[t] · h[i]) [w[i] = w]
    p(w at t) = (1 - λ) p_model(w at t) + λ p_cache(w at t)

w[i] is the word that followed state h[i], which is made to length 1. No model learns for it.

Paper: Grave, Joulin & Usunier 2017, equations 3 and 5.
Cost: time and memory O(n · size) for n words, a block of them at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import SettingError, check_least

AT_ONCE = 1000
"""How many words look into the cache together."""
SHARPNESSES = (4.0, 8.0, 12.0, 16.0, 24.0)
SHARES = tuple(each / 40 for each in range(1, 17))
"""Among these θ and λ are chosen where they are not given."""


class ReadText(NamedTuple):
    """A text as a language model read it, token by token in its order."""

    nats: Float[Tensor, " n"]
    """−ln p of each token."""
    states: Float[Tensor, "n m"]
    """What the output layer read before it, of length 1."""
    tokens: Int[Tensor, " n"]


@final
@dataclass(frozen=True, kw_only=True)
class NeuralCache:
    """A cache with its size, sharpness and share."""

    size: int = 2000
    """How many tokens back it reaches."""
    sharpness: float = 12.0
    """θ: how much likelier the word of a more similar state is."""
    share: float = 0.1
    """λ: the cache's part of the probability."""

    def __post_init__(self) -> None:
        check_least("cache.size", self.size, 1)
        if not 0 < self.sharpness < float("inf"):
            raise SettingError(f"cache.sharpness must be above 0, got {self.sharpness}.")
        if not 0 <= self.share < 1:
            raise SettingError(f"cache.share must lie in [0, 1), got {self.share}.")

    def nats(self, text: ReadText) -> Float[Tensor, " n"]:
        """−ln p of each token, the cache having its share."""
        return mixed(text, self.probabilities(text), self.share)

    @torch.no_grad()
    def probabilities(self, text: ReadText) -> Float[Tensor, " n"]:
        """What the cache alone gives each token; 0 to the first, which has nothing before it."""
        found, n_tokens = torch.zeros_like(text.nats), len(text.tokens)
        for first in range(0, n_tokens, AT_ONCE):
            last, begin = min(first + AT_ONCE, n_tokens), max(0, first - self.size)
            at = torch.arange(begin, last, device=text.tokens.device)
            back = at[first - begin :, None] - at
            scores = self.sharpness * text.states[first:last] @ text.states[begin:last].mT
            is_there = (back >= 1) & (back <= self.size)
            weights = scores.masked_fill(~is_there, -torch.inf).softmax(-1)
            is_it = text.tokens[first:last, None] == text.tokens[begin:last]
            found[first:last] = (weights.nan_to_num() * is_it).sum(-1).to(found.dtype)
        return found


def mixed(text: ReadText, cached: Float[Tensor, " n"], share: float) -> Float[Tensor, " n"]:
    """−ln p of each token, of which a cache has a share."""
    return -((1 - share) * (-text.nats).exp() + share * cached).log()


def chosen_cache(
    text: ReadText,
    *,
    size: int,
    sharpnesses: Sequence[float] = SHARPNESSES,
    shares: Sequence[float] = SHARES,
) -> NeuralCache:
    """The cache with the least loss on a text: one that is not scored later."""
    best: tuple[float, NeuralCache] | None = None
    for sharpness in sharpnesses:
        cached = NeuralCache(size=size, sharpness=sharpness).probabilities(text)
        for share in shares:
            nats = float(mixed(text, cached, share).sum())
            if best is None or nats < best[0]:
                best = nats, NeuralCache(size=size, sharpness=sharpness, share=share)
    if best is None:
        raise SettingError("cache: expected sharpnesses and shares to choose from, got none.")
    return best[1]
