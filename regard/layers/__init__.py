"""vectors → vectors: feed-forward, norm, residual, encoder layer, decoder layer, branches."""

from regard.layers.decoder_layer import DecoderCache, DecoderLayer
from regard.layers.encoder_layer import EncoderLayer
from regard.layers.feed_forward import FeedForward
from regard.layers.norm import Norm
from regard.layers.residual import RESIDUALS, PostNorm, PreNorm, Residual
from regard.layers.weighted_branches import WeightedBranches, project_to_simplex

__all__ = [
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
