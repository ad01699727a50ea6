"""spec → reader: the one place where the choices of an encoder's [model] section become a model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from torch import nn

from regard.attention import RELATIONS
from regard.attention.links import NO_RELATION, Pattern, Relation
from regard.data.kinds import MASK_NUMBER
from regard.layers import Norm
from regard.models.bert import Classifier, Encoder, MaskedLanguageModel, Tagger
from regard.models.embedding import Embedding
from regard.models.encoders.big_bird import FirstBlockAgain, PublishedBigBirdPattern
from regard.models.encoders.reader import Network, Reader, Vectors
from regard.models.encoders.spec import READING_PATTERNS, EncoderSpec
from regard.models.mask_checks import check_padding
from regard.models.published.layers import AppendOne, Layering, tied_output
from regard.models.published.sizes import check_one_vocabulary
from regard.positions import POSITIONS

INITIAL_STD = 0.02
"""Of embeddings, as in BERT."""


def build_encoder(spec: EncoderSpec, *, n_source_tokens: int, n_target_tokens: int) -> Reader:
    """Make the model, and see that padding changes nothing.

    Args:
        spec: sizes and choices.
        n_source_tokens: size of the vocabulary that is read.
        n_target_tokens: of what is said; words that are guessed are of the vocabulary read.
    """
    if spec.has_one_vocabulary:
        check_one_vocabulary(spec.kind, n_source_tokens, n_target_tokens)
    network = NETWORKS[spec.task](_Making(spec, n_source_tokens), n_target_tokens)
    is_meta = network.output.weight.device.type == "meta"
    if not is_meta:
        check_padding(network.encoder, network.encoder, n_source_tokens)
    return Reader(network, task=spec.task)


@final
@dataclass(frozen=True)
class _Making:
    """The parts of one model."""

    spec: EncoderSpec
    n_tokens: int

    def encoder(self) -> Encoder:
        spec, pattern = self.spec, self._pattern()
        layering = Layering(
            dims=spec.dims,
            d_hidden=spec.d_hidden,
            activation=spec.feed_forward,
            norm=spec.norm,
            norm_eps=spec.norm_eps,
            dropout=spec.dropout,
            attention_dropout=spec.attention_dropout,
            has_bias=spec.has_bias,
            is_rotary=spec.positions.name == "rotary",
        )
        return Encoder(
            embedding=self._embedding(),
            layers=[layering.encoder_layer(self._relation(pattern)) for _ in range(spec.n_layers)],
            norm=layering.last_norm(),
            pattern=pattern,
            is_by_length=pattern is not None and pattern.needs_length,
            carries_heads=spec.needs_trees,
        )

    def norm(self) -> Norm:
        return Norm(self.spec.dims, eps=self.spec.norm_eps)

    def labels(self, count: int) -> nn.Linear:
        layer = nn.Linear(self.spec.d_model, count, bias=False)
        nn.init.normal_(layer.weight, std=INITIAL_STD)
        return layer

    def _embedding(self) -> Embedding:
        spec = self.spec
        adds = spec.positions.name not in ("none", "rotary")
        embedding = Embedding(
            spec.dims,
            n_tokens=self.n_tokens,
            positions=spec.positions.build(POSITIONS, spec.dims) if adds else None,
            dropout=spec.dropout,
            n_segments=spec.n_segments,
            norm=self.norm(),
            scale=None if spec.is_scaled else 1.0,
            has_output_bias=spec.task == "words" and spec.has_output_bias,
        )
        nn.init.normal_(embedding.E.weight[:, : spec.d_model].detach(), std=INITIAL_STD)
        return embedding

    def _pattern(self) -> Pattern | None:
        chosen = self.spec.pattern
        return None if chosen is None else chosen.build(READING_PATTERNS, self.spec.dims)

    def _relation(self, pattern: Pattern | None) -> Relation:
        """The spec's own for each layer, or what a published pattern adds to the scores."""
        if self.spec.relation is not None:
            return self.spec.relation.build(RELATIONS, self.spec.dims.head())
        if isinstance(pattern, PublishedBigBirdPattern) and not pattern.has_random_links:
            return FirstBlockAgain(pattern)
        return NO_RELATION


def _words(making: _Making, n_target_tokens: int) -> MaskedLanguageModel:
    encoder = making.encoder()
    norm: nn.Module = making.norm()
    if encoder.embedding.has_output_bias:
        norm = nn.Sequential(norm, AppendOne())
    return MaskedLanguageModel(
        making.spec.dims,
        encoder=encoder,
        output=tied_output(encoder.embedding.E),
        activation=making.spec.feed_forward,
        norm=norm,
        mask=MASK_NUMBER,
    )


def _tags(making: _Making, n_target_tokens: int) -> Tagger:
    return Tagger(encoder=making.encoder(), output=making.labels(n_target_tokens))


def _label(making: _Making, n_target_tokens: int) -> Classifier:
    encoder, output = making.encoder(), making.labels(n_target_tokens)
    return Classifier(making.spec.dims, encoder=encoder, output=output)


def _vectors(making: _Making, n_target_tokens: int) -> Vectors:
    encoder = making.encoder()
    return Vectors(encoder=encoder, output=tied_output(encoder.embedding.E))


NETWORKS: Mapping[str, Callable[[_Making, int], Network]] = {
    "words": _words,
    "tags": _tags,
    "label": _label,
    "vectors": _vectors,
}
"""What makes the network of a task."""
