"""T5: an encoder-decoder in which layers of a stack share one table of biases by distance.

    e[i,j] = q[i] · k[j] + t[h, bucket(j - i)],   logits = RMS(decoder(…)) Oᵀ

It differs from the Transformer in norms that are not centred, in scores that are not scaled, in
heads that may be wider than their share, and in having no positions and no biases. The output layer
is the table of words in the first version and one of its own in later ones, whose feed-forwards are
gated too.

Paper: Raffel et al. 2020 (T5); Shazeer 2020 (gates).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import nn

from regard.choices import Choice
from regard.layers import FEED_FORWARDS
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.attention_spec import AttentionChoices
from regard.models.mask_checks import check_masks
from regard.models.parts import AppendOne, Parts, own_output, tied_output
from regard.models.spec import LARGEST_SIZES, StackSpec
from regard.models.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class T5Spec(StackSpec):
    """Sizes and switches; by default those of the small published model."""

    kind: str = "t5"
    task: str = "translation"
    head_width: int | None = 64
    """Width of one head; the heads share the model's width equally unless given."""
    n_encoder_layers: int = 6
    """Layers that read the source."""
    n_decoder_layers: int = 6
    """Layers that write the target."""
    feed_forward: str = "relu"
    """"relu", or "gated_gelu" of version 1.1; "gated", "gelu", "gelu_tanh" or "swish"."""
    feed_forward_dropout: float = 0.1
    """On the inner activations."""
    n_buckets: int = 32
    """Buckets of distances, each with a bias for each head."""
    max_distance: int = 128
    """From this distance on all share the last bucket."""
    is_tied: bool = True
    """Whether the output layer is the table of words."""
    norm_eps: float = 1e-6
    """The eps of norms, added to the mean square."""

    norm, is_centred, is_scaled, feed_forward_has_bias = "pre_norm", False, False, False
    positions, score = Choice("none"), Choice("dot")
    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "feed_forward_dropout", "norm_eps")
    largest: ClassVar[Mapping[str, int]] = {**LARGEST_SIZES, "n_buckets": 1 << 16}
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "feed_forward": {**FEED_FORWARDS, **ACTIVATIONS}
    }
    shares_relation = True
    table_apart = "a model of another kind"
    """What source and target of two vocabularies need: both have one table here."""

    def attention(self, kind: str) -> AttentionChoices:
        """The choices of a kind: half of the encoder's buckets are of words that come later."""
        sizes = {"n_buckets": self.n_buckets, "max_distance": self.max_distance}
        relation = Choice("bucketed", {**sizes, "is_causal": kind == "decoder"})
        found = super().attention(kind)
        return found if kind == "cross" else replace(found, relation=relation)


def build_t5(spec: T5Spec, *, n_source_tokens: int, n_target_tokens: int) -> Transformer:
    """Make the encoder-decoder, and check that its masks hide what they should."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    embedding = parts.embedding(n_target_tokens, has_output_bias=spec.is_tied)
    model = Transformer(
        source=embedding,
        target=embedding,
        encoder=parts.encoder_layers(spec.n_encoder_layers),
        decoder=parts.decoder_layers(spec.n_decoder_layers),
        encoder_norm=parts.last_norm(),
        decoder_norm=nn.Sequential(parts.last_norm(), AppendOne()),
        output=tied_output(embedding.E) if spec.is_tied else own_output(spec, n_target_tokens),
    )
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model
