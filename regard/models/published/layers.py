"""Layering: the layers of published models, which differ in a handful of switches.

family     norm         eps      activation    projections
BERT       post_norm    1e-12    gelu          with biases
BigBird    post_norm    1e-12    gelu_tanh     with biases
Marian     post_norm    1e-5     swish         with biases
GPT-2      pre_norm     1e-5     gelu_tanh     with biases
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Chain, GroupedQueryHeads, multi_head
from regard.attention.links import NO_RELATION, Relation
from regard.dims import Dims
from regard.layers import RESIDUALS, DecoderLayer, EncoderLayer, FeedForward, Norm, Residual
from regard.positions import RotaryPositions


@final
@dataclass(frozen=True)
class Layering:
    """Makes each layer afresh."""

    dims: Dims
    d_hidden: int
    activation: str
    norm: str
    norm_eps: float
    dropout: float
    attention_dropout: float
    has_bias: bool = True
    """Whether the projections of heads add one."""
    is_rotary: bool = False

    def encoder_layer(self, relation: Relation = NO_RELATION) -> EncoderLayer:
        """A layer that attends to its own sequence."""
        return EncoderLayer(
            attention=self._attention(relation),
            feed_forward=self._feed_forward(),
            around_attention=self._residual(),
            around_feed_forward=self._residual(),
        )

    def decoder_layer(self) -> DecoderLayer:
        """A layer that attends to its own past and to a source."""
        return DecoderLayer(
            attention=self._attention(NO_RELATION),
            cross_attention=self._attention(NO_RELATION),
            feed_forward=self._feed_forward(),
            around_attention=self._residual(),
            around_cross_attention=self._residual(),
            around_feed_forward=self._residual(),
        )

    def last_norm(self) -> nn.Module:
        """What stands at the end of a stack: a norm if its layers begin with theirs."""
        return self._norm() if self.norm == "pre_norm" else nn.Identity()

    def _attention(self, relation: Relation) -> GroupedQueryHeads:
        chain = Chain(relation=relation, dropout=self.attention_dropout)
        rotary = RotaryPositions(self.dims) if self.is_rotary else None
        return multi_head(self.dims, chain=chain, has_bias=self.has_bias, rotary=rotary)

    def _feed_forward(self) -> FeedForward:
        return FeedForward(self.dims, d_hidden=self.d_hidden, activation=self.activation)

    def _residual(self) -> Residual:
        return RESIDUALS[self.norm](self.dims, dropout=self.dropout, norm=self._norm())

    def _norm(self) -> Norm:
        return Norm(self.dims, eps=self.norm_eps)


@final
class AppendOne(nn.Module):
    """A column of ones: with it, the last column of an output layer's weights is its bias.

        [h, 1] [E, c]ᵀ = h Eᵀ + c

    So whatever multiplies states by the weights of an output layer, a loss as well as a search,
    knows of biases without a word about them, and E may still be the embedding's table.
    """

    def forward(self, h: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m+1"]:
        """The states, each with a one behind it."""
        return torch.cat([h, h.new_ones(*h.shape[:-1], 1)], -1)


def tied_output(table: nn.Embedding) -> nn.Linear:
    """An output layer whose weights are a table's; a bias, if any, is the table's last column."""
    layer = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False, device="meta")
    layer.weight = table.weight
    return layer
