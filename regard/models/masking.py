"""Masking: hides some words of a text, which the model then predicts.

    15 % of a row's words are chosen; of these 80 % become the mask, 10 % any word, 10 % stay

Paper: Devlin et al. 2019, section 3.1 and appendix A.1.
"""

from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from regard.data.subword_kinds import PAD, SPECIALS, UNK
from regard.models.shapes import Tokens

MASK = UNK
"""The token of a hidden word in vocabularies without a mask piece: the unknown token, as the word
is not known to the model."""
SHARE = 0.15
"""How many of a row's words are chosen."""
HIDDEN, ANOTHER = 0.8, 0.1
"""How many of the chosen words become the mask, and how many become any word."""


class Masked(NamedTuple):
    """A text with hidden words, and the words that were there."""

    read: Tokens
    """The text as the model reads it."""
    gold: Tokens
    """The chosen words; padding (0) at all others."""


def masked(
    tokens: Tokens,
    *,
    n_tokens: int,
    share: float = SHARE,
    mask: int = MASK,
    generator: torch.Generator | None = None,
) -> Masked:
    """Choose words of every row and hide most of them.

    Args:
        tokens: the text. Special tokens (padding, begin, end, unknown) are never chosen.
        n_tokens: size of the vocabulary.
        share: how many words of a row are chosen, to the nearest whole number and at least one.
        mask: what stands for a hidden word (`MASK_NUMBER` where the vocabulary has a piece for
            it); it is never chosen, and never stands for another word.
        generator: source of random numbers; torch's own unless given.
    """
    least = max(len(SPECIALS), mask + 1)
    words = tokens >= least
    # ranks instead of independent draws: every row with a word hides at least one
    draws = _draws(tokens, generator).masked_fill(~words, 2.0)
    wanted = (words.sum(1, keepdim=True) * share).round().clamp(min=1)
    gold = tokens.masked_fill(~words | (draws.argsort(1).argsort(1) >= wanted), PAD)
    fate, other = _draws(tokens, generator), _draws(tokens, generator)
    first = min(least, n_tokens - 1)
    another = first + (other * (n_tokens - first)).long()
    read = torch.where(fate < HIDDEN, mask, tokens)
    read = torch.where((fate >= HIDDEN) & (fate < HIDDEN + ANOTHER), another, read)
    return Masked(torch.where(gold == PAD, tokens, read), gold)


def masked_alone(tokens: Tokens, *, n_tokens: int, mask: int = MASK) -> Masked:
    """`masked` with draws from a hash of each row's tokens, independent of batch and padding."""
    read, gold = tokens.clone(), torch.full_like(tokens, PAD)
    for row, length in enumerate((tokens != PAD).sum(1).tolist()):
        own = tokens[row : row + 1, :length]
        seed = crc32(own.cpu().numpy().tobytes())
        chance = torch.Generator().manual_seed(seed)
        read[row, :length], gold[row, :length] = masked(
            own, n_tokens=n_tokens, mask=mask, generator=chance
        )
    return Masked(read, gold)


def _draws(tokens: Tensor, generator: torch.Generator | None) -> Tensor:
    """A number from 0 to 1 for each token; a large vocabulary needs double precision."""
    device = tokens.device if generator is None else generator.device
    drawn = torch.rand(tokens.shape, generator=generator, device=device, dtype=torch.float64)
    return drawn.to(tokens.device)
