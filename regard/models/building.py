"""spec → model: the one place where the choices of a [model] section become parts."""

from dataclasses import dataclass

import torch
from torch import nn

from regard.attention import RELATIONS, SCORES, SELECTIONS, Chain, GroupedQueryHeads, multi_head
from regard.attention.links import NO_RELATION
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers import FEED_FORWARDS, RESIDUALS, DecoderLayer, EncoderLayer, Norm, Residual
from regard.models.embedding import Embedding
from regard.models.language_model import LanguageModel
from regard.models.spec import TransformerSpec
from regard.models.transformer import Transformer, check_masks
from regard.positions import POSITIONS, RotaryPositions


def build_transformer(
    spec: TransformerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Transformer:
    """Make the encoder-decoder, and see that its masks hide what they should."""
    if spec.tied == "all" and n_source_tokens != n_target_tokens:
        raise SettingError(
            f"model.tied = 'all' needs one vocabulary for both sides, got {n_source_tokens} source "
            f"and {n_target_tokens} target tokens. Take a joint vocabulary, or tied = 'output'."
        )
    parts = _Parts(spec, spec.dims)
    target = parts.embedding(n_target_tokens)
    model = Transformer(
        source=target if spec.tied == "all" else parts.embedding(n_source_tokens),
        target=target,
        encoder=[parts.encoder_layer() for _ in range(spec.n_encoder_layers)],
        decoder=[parts.decoder_layer() for _ in range(spec.n_decoder_layers)],
        encoder_norm=parts.last_norm(),
        decoder_norm=parts.last_norm(),
        output=parts.output(target),
    )
    if target.E.weight.device.type != "meta":
        check_masks(model, min(n_source_tokens, n_target_tokens))
    return model


def transformer_shapes(
    spec: TransformerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> dict[str, tuple[int, ...]]:
    """What the model's weights would look like, without making one number of them."""
    with torch.device("meta"):
        model = build_transformer(
            spec, n_source_tokens=n_source_tokens, n_target_tokens=n_target_tokens
        )
    return {name: tuple(weight.shape) for name, weight in model.named_parameters()}


def build_language_model(spec: TransformerSpec, *, n_tokens: int) -> LanguageModel:
    """Make the decoder-only model: the encoder's layers under a causal mask."""
    parts = _Parts(spec, spec.dims)
    embedding = parts.embedding(n_tokens)
    return LanguageModel(
        embedding=embedding,
        layers=[parts.encoder_layer() for _ in range(spec.n_decoder_layers)],
        norm=parts.last_norm(),
        output=parts.output(embedding),
    )


@dataclass(frozen=True)
class _Parts:
    """Makes each part afresh: no two layers share a parameter unless a tie says so."""

    spec: TransformerSpec
    dims: Dims

    def embedding(self, n_tokens: int) -> Embedding:
        name = self.spec.positions.name
        adds = name not in ("none", "rotary")
        positions = self.spec.positions.build(POSITIONS, self.dims) if adds else None
        return Embedding(
            self.dims, n_tokens=n_tokens, positions=positions, dropout=self.spec.dropout
        )

    def output(self, target: Embedding) -> nn.Linear:
        layer = nn.Linear(self.spec.d_model, target.E.num_embeddings, bias=False)
        nn.init.normal_(layer.weight, std=self.spec.d_model**-0.5)
        if self.spec.tied != "none":
            layer.weight = target.E.weight
        return layer

    def encoder_layer(self) -> EncoderLayer:
        return EncoderLayer(
            attention=self.attention(self.spec.relation),
            feed_forward=self.feed_forward(),
            around_attention=self.residual(),
            around_feed_forward=self.residual(),
        )

    def decoder_layer(self) -> DecoderLayer:
        return DecoderLayer(
            attention=self.attention(self.spec.relation),
            cross_attention=self.attention(None),
            feed_forward=self.feed_forward(),
            around_attention=self.residual(),
            around_cross_attention=self.residual(),
            around_feed_forward=self.residual(),
        )

    def attention(self, relation: Choice | None) -> GroupedQueryHeads:
        head = self.dims.head()
        chain = Chain(
            self.spec.score.build(SCORES, head),
            relation=relation.build(RELATIONS, head) if relation else NO_RELATION,
            select=self.spec.select.build(SELECTIONS, head),
            dropout=self.spec.attention_dropout,
        )
        is_rotary = self.spec.positions.name == "rotary"
        return multi_head(
            self.dims, chain=chain, rotary=RotaryPositions(self.dims) if is_rotary else None
        )

    def feed_forward(self) -> nn.Module:
        settings = {"d_hidden": self.spec.d_hidden, "dropout": self.spec.feed_forward_dropout}
        return Choice(self.spec.feed_forward, settings).build(FEED_FORWARDS, self.dims)

    def residual(self) -> Residual:
        return RESIDUALS[self.spec.norm](self.dims, dropout=self.spec.dropout)

    def last_norm(self) -> nn.Module:
        return Norm(self.dims) if self.spec.norm == "pre_norm" else nn.Identity()
