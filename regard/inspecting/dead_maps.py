"""Dead maps: a caption's maps that are uniform over the picture, or the same for every word.

    entropyₜ = −Σᵢ aₜᵢ ln aₜᵢ              0 for one cell, ln L for all alike
    spreadₜ  = e^(entropyₜ) / L            the share of the cells that the map is spread over
    stirₜ    = ½ Σᵢ |aₜᵢ − mean_s aₛᵢ|     0 for a map like all others, towards 1 for one of its own

A caption's maps are dead when they are uniform, that is when every word's spread is at least 0.95,
or when they do not change, that is when no word's stir passes 0.05: five hundredths of the weight
lie elsewhere than on average. A caption of one word cannot change.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

UNIFORM = 0.95
"""A map spread over at least this share of the cells counts as uniform."""
STILL = 0.05
"""A map with at most this share of its weight elsewhere than the mean map counts as equal."""


def entropies(maps: Float[Tensor, "t l"]) -> Float[Tensor, " t"]:
    """How spread each map is, in nats."""
    # abs: the entropy of one cell is 0, not -0
    return torch.special.entr(_summing_to_one(maps)).sum(-1).abs()


def spreads(maps: Float[Tensor, "t l"]) -> Float[Tensor, " t"]:
    """The share of the cells that each map is spread over.

    >>> spreads(torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])).tolist()
    [0.5, 1.0]
    """
    return entropies(maps).exp() / maps.shape[-1]


def stirs(maps: Float[Tensor, "t l"]) -> Float[Tensor, " t"]:
    """How much of each map's weight lies elsewhere than in the mean of all maps.

    >>> stirs(torch.eye(2)).tolist()
    [0.5, 0.5]
    """
    weights = _summing_to_one(maps)
    return (weights - weights.mean(0)).abs().sum(-1) / 2


def dead_maps(maps: Float[Tensor, "t l"]) -> str:
    """What is wrong with a caption's maps, as a sentence; empty if they are not dead."""
    n_words, n_cells = maps.shape
    if not n_words:
        return ""
    least, most = float(spreads(maps).min()), float(stirs(maps).max())
    if least >= UNIFORM:
        return (
            f"The maps are dead: every word looks at the whole picture alike (entropy at least "
            f"{math.log(least * n_cells):.2f} of {math.log(n_cells):.2f} nats)."
        )
    if n_words > 1 and most <= STILL:
        return (
            "The maps are dead: they do not change from word to word (at most "
            f"{100 * most:.1f} % of a word's weight lies elsewhere than on average)."
        )
    return ""


def _summing_to_one(maps: Float[Tensor, "t l"]) -> Float[Tensor, "t l"]:
    weights = maps.detach().cpu().double()
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
