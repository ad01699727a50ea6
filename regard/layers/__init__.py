"""vectors → vectors: feed-forward, norm, residual, encoder layer, decoder layer, branches."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.layers.decoder_layer import DecoderCache, DecoderLayer
from regard.layers.encoder_layer import EncoderLayer
from regard.layers.feed_forward import FeedForward
from regard.layers.norm import Norm
from regard.layers.residual import RESIDUALS, PostNorm, PreNorm, Residual
from regard.layers.weighted_branches import WeightedBranches, project_to_simplex

LAYERS: Mapping[str, Callable[..., Any]] = {
    "feed_forward": FeedForward,
    "norm": Norm,
    "residual": PreNorm,
    "encoder_layer": EncoderLayer,
    "decoder_layer": DecoderLayer,
    "weighted_branches": WeightedBranches,
}

__all__ = [
    "LAYERS",
    "RESIDUALS",
    "DecoderCache",
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "Norm",
    "PostNorm",
    "PreNorm",
    "Residual",
    "WeightedBranches",
    "project_to_simplex",
]
