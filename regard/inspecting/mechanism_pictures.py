"""Mechanism pictures: a small one of every mechanism, drawn by running it on 16 positions.

Links show the weights they give, patterns what they let through, positions their codes, layers
which input each output depends on (by gradients). Every drawn number is computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard import layers
from regard.attention import (
    HEADS,
    MEMORIES,
    PATTERNS,
    RELATIONS,
    SCORES,
    SELECTIONS,
    Chain,
    GroupedQueryHeads,
    multi_head,
)
from regard.catalogue import mechanism
from regard.choices import Choice
from regard.dims import Dims
from regard.places import Places, Tree
from regard.positions import POSITIONS, RotaryPositions

KINDS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "score": SCORES,
    "relation": RELATIONS,
    "pattern": PATTERNS,
    "selection": SELECTIONS,
    "memory": MEMORIES,
    "heads": HEADS,
    "positions": POSITIONS,
    "layer": layers.LAYERS,
}

CHAINS: Mapping[str, Callable[..., Chain]] = {
    "score": lambda link: Chain(link),
    "relation": lambda link: Chain(relation=link),
    "pattern": lambda link: Chain(pattern=link),
    "selection": lambda link: Chain(select=link),
    "memory": lambda link: Chain(memory=link),
}
"""For each kind of link, the plainest chain with such a link in it."""

N = 16
DIMS = Dims(d_model=16, n_heads=2, max_len=N)

SMALL_SETTINGS: Mapping[str, dict[str, object]] = {
    "sliding_window": {"size": 2},
    "blocks": {"size": 4},
    "global_tokens": {"first": 2, "last": 1},
    "random_links": {"block": 2, "n_random": 2},
    "big_bird": {"block": 1, "n_random": 1},
    "local_monotonic": {"half_width": 2},
    "local_predictive": {"half_width": 3},
    "top_k": {"count": 3},
    "shaw": {"clip": 4},
    "structural": {"clip": 4},
    "bucketed": {"n_buckets": 8, "max_distance": 16},
    "linformer": {"slots": 6},
}
"""Settings small enough to be seen in 16 positions."""

HEADS_OF_WORDS = (1, 3, 3, -1, 7, 7, 7, 3, 7, 10, 8, 13, 13, 10, 3, 14)
"""The dependency heads of a sentence of 16 words."""


@dataclass(frozen=True)
class MechanismPicture:
    """Numbers from 0 to 1 (codes: -1 to 1), and what rows and columns stand for."""

    numbers: Float[Tensor, "r c"]
    rows: str
    columns: str
    meaning: str
    """What one number is, such as weight or influence."""


def example(name: str) -> MechanismPicture:
    """The picture of one mechanism, always the same."""
    kind = mechanism(name).kind
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return _DRAW.get(kind, _of_link)(name)


def _of_link(name: str) -> MechanismPicture:
    kind = mechanism(name).kind
    link = Choice(name, SMALL_SETTINGS.get(name, {})).build(KINDS[kind], DIMS.head())
    _spread(link)
    return _of_heads(multi_head(DIMS, chain=CHAINS[kind](link)))


def _of_pattern(name: str) -> MechanismPicture:
    pattern = Choice(name, SMALL_SETTINGS.get(name, {})).build(PATTERNS, DIMS.head())
    visible = pattern.visible(Places.between(N, N)).expand(N, N)
    return MechanismPicture(visible.float(), "queries", "keys", "visible")


def _of_heads(heads: GroupedQueryHeads) -> MechanismPicture:
    """The first head's weights over a sequence in which neighbours resemble each other."""
    for projection in (heads.W_Q, heads.W_K):
        nn.init.eye_(projection.weight)
    steps = torch.randn(1, N, DIMS.d_model)
    x = (steps + steps.roll(1, 1) + steps.roll(2, 1)) * 0.7
    tree = Tree.from_heads(torch.tensor([HEADS_OF_WORDS]))
    attended = heads.eval()(x, places=Places.between(N, N, tree=tree))
    return MechanismPicture(attended.map.dense()[0, 0], "queries", attended.map.columns, "weight")


def _of_positions(name: str) -> MechanismPicture:
    part = POSITIONS[name](DIMS)
    _spread(part)
    at = torch.arange(N)
    if isinstance(part, RotaryPositions):
        codes = part(torch.ones(N, DIMS.d_head), at)
    else:
        codes = part(at[None], Tree.from_heads(torch.tensor([HEADS_OF_WORDS])))[0]
    codes = codes.detach().float()
    return MechanismPicture(codes / codes.abs().amax(), "positions", "channels", "code")


def _of_layer(name: str) -> MechanismPicture:
    layer = _LAYERS[name]()
    x = torch.randn(1, N, DIMS.d_model)
    # how strongly output i depends on input j, summed over channels
    pulls = torch.autograd.functional.jacobian(layer, x)[0, :, :, 0].abs().sum((1, 3))
    return MechanismPicture(pulls / pulls.amax(), "outputs", "inputs", "influence")


def _spread(link: object) -> None:
    """Give a part visible parameters, since some are zero at first."""
    if isinstance(link, nn.Module):
        for parameter in link.parameters():
            nn.init.normal_(parameter, std=0.7)


def _encoder_layer() -> Callable[[Tensor], Tensor]:
    return layers.EncoderLayer(
        attention=multi_head(DIMS),
        feed_forward=layers.FeedForward(DIMS),
        around_attention=layers.PreNorm(DIMS),
        around_feed_forward=layers.PreNorm(DIMS),
    )


def _decoder_layer() -> Callable[[Tensor], Tensor]:
    layer = layers.DecoderLayer(
        attention=multi_head(DIMS),
        cross_attention=multi_head(DIMS),
        feed_forward=layers.FeedForward(DIMS),
        around_attention=layers.PreNorm(DIMS),
        around_cross_attention=layers.PreNorm(DIMS),
        around_feed_forward=layers.PreNorm(DIMS),
    )
    source = torch.randn(1, N, DIMS.d_model)
    return lambda x: layer(x, source)


def _residual() -> Callable[[Tensor], Tensor]:
    around, inside = layers.PreNorm(DIMS), layers.FeedForward(DIMS)
    return lambda x: around(x, inside)


_LAYERS: Mapping[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "feed_forward": lambda: layers.FeedForward(DIMS),
    "gated_feed_forward": lambda: layers.GatedFeedForward(DIMS),
    "norm": lambda: layers.Norm(DIMS),
    "residual": _residual,
    "encoder_layer": _encoder_layer,
    "decoder_layer": _decoder_layer,
    "weighted_branches": lambda: layers.WeightedBranches(DIMS, attention=multi_head(DIMS)),
    "convolution": lambda: layers.GatedConvolution(DIMS, kernel=5),
    "experts": lambda: layers.Experts(DIMS, count=4),
}

_DRAW: Mapping[str, Callable[[str], MechanismPicture]] = {
    "pattern": _of_pattern,
    "heads": lambda name: _of_heads(HEADS[name](DIMS)),
    "positions": _of_positions,
    "layer": _of_layer,
}
