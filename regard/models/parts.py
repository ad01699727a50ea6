"""Parts: what the layers of a model are made of, each made afresh from one spec."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import final

import torch
from torch import nn

from regard.attention import RELATIONS, SCORES, SELECTIONS, Chain, GroupedQueryHeads, multi_head
from regard.attention.links import NO_RELATION
from regard.choices import Choice
from regard.dims import Dims
from regard.layers import (
    FEED_FORWARDS,
    RESIDUALS,
    BranchedDecoderLayer,
    BranchedEncoderLayer,
    DecoderLayer,
    EncoderLayer,
    Experts,
    Norm,
    Residual,
    WeightedBranches,
)
from regard.models.embedding import Embedding
from regard.models.self_attention import (
    ATTENDING,
    Attending,
    attending_in_turn,
    seeing_all,
)
from regard.models.spec import TransformerSpec
from regard.positions import POSITIONS, RotaryPositions

OWN_SHARE = 0.2
"""How much a state may name its own token before any training, as a share of all others."""


@final
@dataclass(frozen=True)
class Parts:
    """Makes each part afresh: no two layers share a parameter unless the spec says so."""

    spec: TransformerSpec
    is_causal: bool = False
    """Whether encoder layers write, and must not see the future."""
    attends: Callable[[], Attending] = seeing_all
    """How the layer that is made now looks at its own sequence."""
    experts: Mapping[int, Choice] = field(default_factory=dict)
    """Mixtures in the place of a feed-forward, by the number of the layer, counted from 1."""
    number: int = 0
    """Of the layer that is made now, counted from 1."""

    @property
    def dims(self) -> Dims:
        """The sizes that all parts share."""
        return self.spec.dims

    @property
    def counts_from_the_end(self) -> bool:
        """Whether what an encoder layer sees depends on where a text ends."""
        return any(ATTENDING[one.name].needs_length for one in self.spec.encoder_attends)

    def embedding(self, n_tokens: int) -> Embedding:
        """Tokens with positions, if the spec adds any."""
        adds = self.spec.positions.name not in ("none", "rotary")
        return Embedding(
            self.dims,
            n_tokens=n_tokens,
            positions=self.spec.positions.build(POSITIONS, self.dims) if adds else None,
            dropout=self.spec.dropout,
        )

    def output(self, target: Embedding) -> nn.Linear:
        """One score for each token; the embedding's own table if the spec ties them."""
        layer = nn.Linear(self.spec.d_model, target.E.num_embeddings, bias=False)
        nn.init.normal_(layer.weight, std=self.spec.d_model**-0.5)
        if self.spec.tied != "none":
            layer.weight = target.E.weight
        return layer

    def encoder_layers(self, count: int) -> list[nn.Module]:
        """Layers that attend to their own sequence."""
        ways, kind = self.spec.encoder_attends, LAYER_KINDS[self.spec.layer]
        turns: list[Callable[[], Attending]] = []
        for i, way in enumerate(ways):
            # a way that stands twice in the list is the same way
            known = turns[ways.index(way)] if way in ways[:i] else None
            turns.append(
                known or attending_in_turn(way, self.dims.head(), is_causal=self.is_causal)
            )
        return [
            kind.encoder(replace(self, attends=turns[i % len(turns)], number=i + 1))
            for i in range(count)
        ]

    def decoder_layers(self, count: int) -> list[nn.Module]:
        """Layers that attend to their own past and to a source."""
        return [LAYER_KINDS[self.spec.layer].decoder(self) for _ in range(count)]

    def attention(self, relation: Choice | None) -> GroupedQueryHeads:
        """Heads around the spec's chain."""
        head = self.dims.head()
        pattern, memory = self.attends()
        chain = Chain(
            self.spec.score.build(SCORES, head),
            relation=relation.build(RELATIONS, head) if relation else NO_RELATION,
            pattern=pattern,
            select=self.spec.select.build(SELECTIONS, head),
            memory=memory,
            dropout=self.spec.attention_dropout,
        )
        is_rotary = self.spec.positions.name == "rotary"
        return multi_head(
            self.dims, chain=chain, rotary=RotaryPositions(self.dims) if is_rotary else None
        )

    def feed_forward(self) -> nn.Module:
        """The spec's feed-forward, or a mixture of such."""
        if self.number in self.experts:
            return self.experts[self.number].build({"experts": Experts}, self.dims)
        settings = {"d_hidden": self.spec.d_hidden, "dropout": self.spec.feed_forward_dropout}
        return Choice(self.spec.feed_forward, settings).build(FEED_FORWARDS, self.dims)

    def branches(self, relation: Choice | None) -> WeightedBranches:
        """Heads, each with its share of the feed-forward."""
        branches = WeightedBranches(
            self.dims,
            attention=self.attention(relation),
            d_hidden=self.spec.d_hidden,
            activation=self.spec.feed_forward,
            dropout=self.spec.feed_forward_dropout,
        )
        if self.spec.has_frozen_branches:
            for weights in (branches.kappa, branches.alpha):
                weights.requires_grad = False
        return branches

    def residual(self) -> Residual:
        """What goes around a sublayer."""
        return RESIDUALS[self.spec.norm](self.dims, dropout=self.spec.dropout)

    def last_norm(self) -> nn.Module:
        """What stands at the end of a stack: a norm if its layers begin with theirs."""
        return Norm(self.dims) if self.spec.norm == "pre_norm" else nn.Identity()


def _plain_encoder(parts: Parts) -> EncoderLayer:
    return EncoderLayer(
        attention=parts.attention(parts.spec.relation),
        feed_forward=parts.feed_forward(),
        around_attention=parts.residual(),
        around_feed_forward=parts.residual(),
    )


def _plain_decoder(parts: Parts) -> DecoderLayer:
    return DecoderLayer(
        attention=parts.attention(parts.spec.relation),
        cross_attention=parts.attention(None),
        feed_forward=parts.feed_forward(),
        around_attention=parts.residual(),
        around_cross_attention=parts.residual(),
        around_feed_forward=parts.residual(),
    )


def _branched_encoder(parts: Parts) -> BranchedEncoderLayer:
    return BranchedEncoderLayer(
        branches=parts.branches(parts.spec.relation), around_branches=parts.residual()
    )


def _branched_decoder(parts: Parts) -> BranchedDecoderLayer:
    return BranchedDecoderLayer(
        attention=parts.attention(parts.spec.relation),
        branches=parts.branches(None),
        around_attention=parts.residual(),
        around_branches=parts.residual(),
    )


@final
@dataclass(frozen=True)
class LayerKind:
    """How a kind of layer is made, for reading and for writing."""

    encoder: Callable[[Parts], nn.Module]
    decoder: Callable[[Parts], nn.Module]
    is_faint: bool
    """Whether layers begin so faint that the end of a stack still looks like what it read."""


LAYER_KINDS: Mapping[str, LayerKind] = {
    "plain": LayerKind(_plain_encoder, _plain_decoder, is_faint=False),
    "weighted_branches": LayerKind(_branched_encoder, _branched_decoder, is_faint=True),
}
"""What `model.layer` may name."""


@torch.no_grad()
def scale_output_gain(model: nn.Module, n_tokens: int) -> None:
    """Lower the gain of a model's last norm, so that the loss begins near the logarithm of V.

    A tied output layer compares the last state with every embedding. A state that still looks
    like the token that was read would begin by shouting that token, with a logit of sqrt(m).
    """
    norms = [part for part in model.modules() if isinstance(part, Norm)]
    loudest = math.log(max(math.e, OWN_SHARE * n_tokens))
    if norms and (gain := norms[-1].gain) is not None:
        gain.fill_(min(1.0, loudest / gain.numel() ** 0.5))
