"""vectors → vectors: feed-forward, norm, residual, encoder layer, decoder layer, branches."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from regard.layers.convolution import GatedConvolution
from regard.layers.decoder_layer import DecoderCache, DecoderLayer
from regard.layers.encoder_layer import EncoderLayer
from regard.layers.feed_forward import FeedForward, NoFeedForward
from regard.layers.gated_feed_forward import GatedFeedForward
from regard.layers.mixtures.experts import Experts
from regard.layers.norm import Norm
from regard.layers.residual import RESIDUALS, PostNorm, PreNorm, Residual
from regard.layers.weighted_branches import (
    BranchedDecoderLayer,
    BranchedEncoderLayer,
    WeightedBranches,
    project_all,
)

FEED_FORWARDS: Mapping[str, Callable[..., nn.Module]] = {
    "relu": FeedForward,
    "gelu": partial(FeedForward, activation="gelu"),
    "gated": GatedFeedForward,
    "gated_gelu": partial(GatedFeedForward, activation="gelu_tanh"),
    "none": NoFeedForward,
}

LAYERS: Mapping[str, Callable[..., Any]] = {
    "feed_forward": FeedForward,
    "gated_feed_forward": GatedFeedForward,
    "norm": Norm,
    "residual": Residual,
    "encoder_layer": EncoderLayer,
    "decoder_layer": DecoderLayer,
    "weighted_branches": WeightedBranches,
    "convolution": GatedConvolution,
    "experts": Experts,
}

__all__ = [
    "FEED_FORWARDS",
    "LAYERS",
    "RESIDUALS",
    "BranchedDecoderLayer",
    "BranchedEncoderLayer",
    "DecoderCache",
    "DecoderLayer",
    "EncoderLayer",
    "Experts",
    "FeedForward",
    "GatedConvolution",
    "GatedFeedForward",
    "Norm",
    "PostNorm",
    "PreNorm",
    "Residual",
    "WeightedBranches",
    "project_all",
]
