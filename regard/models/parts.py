"""Parts: makes embeddings, heads, feed-forwards, norms and layers from a model's spec.

family     norm         eps      feed-forward    projections
ours       any          1e-5     any             without biases
BERT       post_norm    1e-12    gelu            with biases
BigBird    post_norm    1e-12    gelu_tanh       with biases
Marian     post_norm    1e-5     swish           with biases
BART       either       1e-5     gelu, relu      with biases
T5         pre_norm     1e-6     any             without biases, RMS norms
GPT-2      pre_norm     1e-5     gelu_tanh       with biases
Llama      pre_norm     1e-6     gated           with or without, RMS norms

A layer's first weights are drawn in one order: attention, feed-forward, residuals.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import SCORES, SELECTIONS, Chain, GroupedQueryHeads
from regard.attention.links import NO_RELATION, Relation
from regard.dims import Dims
from regard.layers import (
    FEED_FORWARDS,
    RESIDUALS,
    BranchedDecoderLayer,
    BranchedEncoderLayer,
    DecoderLayer,
    EncoderLayer,
    Experts,
    FeedForward,
    Norm,
    Residual,
    WeightedBranches,
)
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.attention_spec import RELATION_CHOICES
from regard.models.embedding import Embedding
from regard.models.self_attention import SEES_ALL, SelfAttentionLinks, make_links
from regard.models.spec import POSITION_CHOICES, StackSpec

OWN_SHARE = 0.2
"""Limit of exp(logit) of a state's own token before training, as a share of all other tokens'."""


@final
@dataclass(frozen=True)
class Parts:
    """Makes new parts at each call: layers share parameters only where the spec has it so."""

    spec: StackSpec
    is_causal: bool = False
    """Whether encoder layers are those of a language model, and must not see the future."""
    relations: Mapping[str, Relation] = field(default_factory=dict)
    """The relation that all layers share, by kind of attention."""
    sees: Mapping[str, SelfAttentionLinks] = field(default_factory=dict)
    """The pattern or memory of the layer that is being made, by kind of attention."""
    number: int = 0
    """The number of the layer that is being made, from 1."""

    @property
    def dims(self) -> Dims:
        """The sizes that all parts share."""
        return self.spec.dims

    def embedding(
        self, n_tokens: int, *, positions: nn.Module | None = None, has_output_bias: bool = False
    ) -> Embedding:
        """An embedding with these positions, or with the spec's if they are added to embeddings."""
        if positions is None and not self._is_rotary:
            positions = self.spec.positions.build(POSITION_CHOICES, self.dims)
        return Embedding(
            self.dims,
            n_tokens=n_tokens,
            positions=positions,
            dropout=self.spec.dropout,
            n_segments=self.spec.n_segments,
            norm=self.norm() if self.spec.norms_embeddings else None,
            scale=None if self.spec.is_scaled else 1.0,
            has_output_bias=has_output_bias,
        )

    def output(self, target: Embedding) -> nn.Linear:
        """The output layer: one logit for each token; its weight is the embedding's if tied."""
        layer = nn.Linear(self.spec.d_model, target.E.num_embeddings, bias=False)
        nn.init.normal_(layer.weight, std=self.spec.d_model**-0.5)
        if self.spec.tied != "none":
            layer.weight = target.E.weight
        return layer

    def encoder_layers(self, count: int) -> list[nn.Module]:
        """Layers that attend to their own sequence."""
        make = LAYER_KINDS[self.spec.layer].encoder
        return [make(parts) for parts in self._layers(count, ("encoder",))]

    def decoder_layers(self, count: int) -> list[nn.Module]:
        """Layers that attend to their own past and to a source."""
        make = LAYER_KINDS[self.spec.layer].decoder
        return [make(parts) for parts in self._layers(count, ("decoder", "cross"))]

    def _layers(self, count: int, kinds: Sequence[str]) -> Iterator["Parts"]:
        """The parts of each layer, whose patterns and memories are the next of their list."""
        shared = {kind: self._shared_relation(kind) for kind in kinds}
        relations = {kind: one for kind, one in shared.items() if one is not None}
        kept: dict[tuple[str, int], SelfAttentionLinks] = {}
        for i in range(count):
            sees = {kind: self._links(kind, i, kept) for kind in kinds}
            yield replace(self, sees=sees, relations={**self.relations, **relations}, number=i + 1)

    def _links(
        self, kind: str, i: int, kept: dict[tuple[str, int], SelfAttentionLinks]
    ) -> SelfAttentionLinks:
        """The pattern or memory of a layer; what all layers share is in `kept` when it is made."""
        ways = self.spec.attention(kind).attends
        # equal entries of the list share one memory
        way = ways.index(ways[i % len(ways)])
        is_causal = self.is_causal or kind == "decoder"
        sees = kept.get((kind, way)) or make_links(
            ways[way], self.spec.dims_of(kind).head(), is_causal=is_causal
        )
        if sees.memory is not None and sees.memory.is_for_all_layers:
            kept[kind, way] = sees
        return sees

    def attention(self, kind: str = "encoder") -> GroupedQueryHeads:
        """Heads around the chain that the spec has for a kind of attention."""
        spec, own, dims = self.spec, self.spec.attention(kind), self.spec.dims_of(kind)
        head, sees = dims.head(), self.sees.get(kind, SEES_ALL)
        chain = Chain(
            own.score.build(SCORES, head),
            relation=self.relations.get(kind) or self._relation(kind),
            pattern=sees.pattern,
            select=own.select.build(SELECTIONS, head),
            memory=sees.memory,
            dropout=spec.attention_dropout,
        )
        return GroupedQueryHeads(
            dims,
            chain=chain,
            n_groups=own.n_groups,
            has_bias=spec.has_bias,
            query_norm=self._head_norm(dims),
            key_norm=self._head_norm(dims),
            rotary=spec.positions.build(POSITION_CHOICES, dims) if self._is_rotary else None,
        )

    def feed_forward(self) -> nn.Module:
        """The spec's feed-forward, or a mixture of such."""
        name, mixture = self.spec.feed_forward, self.spec.experts
        if mixture is not None and (not mixture.layers or self.number in mixture.layers):
            return Experts(
                self.dims,
                d_hidden=self.spec.d_hidden,
                count=mixture.count,
                used=mixture.used,
                activation=name,
                dropout=self.spec.feed_forward_dropout,
            )
        make = (
            FEED_FORWARDS[name] if name in FEED_FORWARDS else partial(FeedForward, activation=name)
        )
        if name in ACTIVATIONS:
            make = partial(make, has_bias=self.spec.feed_forward_has_bias)
        return make(self.dims, d_hidden=self.spec.d_hidden, dropout=self.spec.feed_forward_dropout)

    def branches(self, kind: str = "encoder") -> WeightedBranches:
        """Weighted branches: heads, each with its share of the feed-forward."""
        branches = WeightedBranches(
            self.spec.dims_of(kind),
            attention=self.attention(kind),
            d_hidden=self.spec.d_hidden,
            activation=self.spec.feed_forward,
            dropout=self.spec.feed_forward_dropout,
        )
        if self.spec.has_frozen_branches:
            for weights in (branches.kappa, branches.alpha):
                weights.requires_grad = False
        return branches

    def residual(self) -> Residual:
        """The residual around a sublayer."""
        return RESIDUALS[self.spec.norm](self.dims, dropout=self.spec.dropout, norm=self.norm())

    def norm(self) -> Norm:
        """A norm of the model's channels."""
        is_centred = self.spec.is_centred
        return Norm(self.dims, has_bias=is_centred, is_centred=is_centred, eps=self.spec.norm_eps)

    def last_norm(self) -> nn.Module:
        """The end of a stack: a norm if its layers are pre-norm, else the identity."""
        return self.norm() if self.spec.norm == "pre_norm" else nn.Identity()

    def _head_norm(self, dims: Dims) -> nn.Module | None:
        return nn.RMSNorm(dims.d_head, eps=self.spec.norm_eps) if self.spec.norms_heads else None

    def _shared_relation(self, kind: str) -> Relation | None:
        """The one relation of all layers, if the spec has it so."""
        return self._relation(kind) if self.spec.attention(kind).shares_relation else None

    def _relation(self, kind: str) -> Relation:
        choice = self.spec.attention(kind).relation
        if choice is None:
            return NO_RELATION
        return choice.build(RELATION_CHOICES, self.spec.dims_of(kind).head())

    @property
    def _is_rotary(self) -> bool:
        return self.spec.positions.name == "rotary"


def _plain_encoder(parts: Parts) -> EncoderLayer:
    return EncoderLayer(
        attention=parts.attention(),
        feed_forward=parts.feed_forward(),
        around_attention=parts.residual(),
        around_feed_forward=parts.residual(),
    )


def _plain_decoder(parts: Parts) -> DecoderLayer:
    return DecoderLayer(
        attention=parts.attention("decoder"),
        cross_attention=parts.attention("cross"),
        feed_forward=parts.feed_forward(),
        around_attention=parts.residual(),
        around_cross_attention=parts.residual(),
        around_feed_forward=parts.residual(),
    )


def _branched_encoder(parts: Parts) -> BranchedEncoderLayer:
    return BranchedEncoderLayer(branches=parts.branches(), around_branches=parts.residual())


def _branched_decoder(parts: Parts) -> BranchedDecoderLayer:
    return BranchedDecoderLayer(
        attention=parts.attention("decoder"),
        branches=parts.branches("cross"),
        around_attention=parts.residual(),
        around_branches=parts.residual(),
    )


@final
@dataclass(frozen=True)
class LayerKind:
    """How a kind of layer is made, for encoders and for decoders."""

    encoder: Callable[[Parts], nn.Module]
    decoder: Callable[[Parts], nn.Module]
    is_faint: bool
    """Whether layers begin with small outputs, so that a stack's output resembles its input."""


LAYER_KINDS: Mapping[str, LayerKind] = {
    "plain": LayerKind(_plain_encoder, _plain_decoder, is_faint=False),
    "weighted_branches": LayerKind(_branched_encoder, _branched_decoder, is_faint=True),
}
"""The names that `model.layer` may have."""


def tied_output(table: nn.Embedding) -> nn.Linear:
    """An output layer whose weights are a table's; a bias, if any, is the table's last column."""
    layer = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False, device="meta")
    layer.weight = table.weight
    return layer


def own_output(spec: StackSpec, n_tokens: int) -> nn.Linear:
    """An output layer with weights of its own, whose last column is its bias."""
    layer = nn.Linear(spec.d_model + 1, n_tokens, bias=False)
    nn.init.normal_(layer.weight, std=spec.d_model**-0.5)
    nn.init.zeros_(layer.weight[:, -1].detach())
    return layer


@final
class AppendOne(nn.Module):
    """A column of ones: with it, the last column of an output layer's weights is its bias.

        [h, 1] [E, c]ᵀ = h Eᵀ + c

    So every product of states with the output layer's weights, in a loss or a search, includes the
    biases without further code, and E may still be the embedding's table.
    """

    def forward(self, h: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m+1"]:
        """The states with a one appended to each."""
        return torch.cat([h, h.new_ones(*h.shape[:-1], 1)], -1)


@torch.no_grad()
def scale_output_gain(model: nn.Module, n_tokens: int) -> None:
    """Lower the gain of a model's last norm, so that the loss begins near the logarithm of V.

    A tied output layer compares the last state with every embedding. A state that still resembles
    the token that was read would begin with a logit of sqrt(m) for that token.
    """
    norms = [part for part in model.modules() if isinstance(part, Norm)]
    loudest = math.log(max(math.e, OWN_SHARE * n_tokens))
    if norms and (gain := norms[-1].gain) is not None:
        gain.fill_(min(1.0, loudest / gain.numel() ** 0.5))
