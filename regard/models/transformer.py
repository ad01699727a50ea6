"""The Transformer: an encoder reads the source, a decoder writes the target word by word.

    h = encoder(embed(source)),   logits[t] = decoder(embed(target[:t]), h) Eᵀ

Paper: Vaswani et al. 2017, section 3.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import FULL, padding
from regard.attention.links import Pattern
from regard.layers import DecoderCache, EncoderLayer
from regard.layers.decoder_layer import WritingLayer, reordered
from regard.models.by_length import read_apart
from regard.models.embedding import Embedding
from regard.models.hard_attention import hard_attention
from regard.models.mask_checks import check_masks
from regard.models.model import Model
from regard.models.parts import LAYER_KINDS, Parts, scale_output_gain
from regard.models.self_attention import needs_length
from regard.models.shapes import Logits, NewStates, NewTokens, SourceTokens, States, TargetTokens
from regard.models.spec import TransformerSpec
from regard.models.stepper import PAD, rows_of
from regard.places import Places


class TransformerState(NamedTuple):
    """The state of decoding: the source's mask, and every decoder layer's cache."""

    valid: Bool[Tensor, "b s"] | None
    """True for tokens, False for padding; None without padding, for the fastest kernels."""
    caches: tuple[DecoderCache, ...]
    length: int
    """Target tokens seen so far."""

    def step(
        self, layers: Iterable[nn.Module], x: NewStates
    ) -> tuple[NewStates, "TransformerState"]:
        """Embedded tokens through the decoder layers, and the longer state."""
        caches, sees_source = [], FULL if self.valid is None else padding(self.valid)
        for layer, cache in zip(cast(Iterable[WritingLayer], layers), self.caches, strict=True):
            x, longer = layer.step(x, cache, source_mask=sees_source)
            caches.append(longer)
        return x, TransformerState(self.valid, tuple(caches), self.length + x.shape[1])

    def select(self, rows: Int[Tensor, " r"]) -> "TransformerState":
        """Some rows, all or none of a sentence's, each with its sentence."""
        width = self.caches[0].width
        sentences = rows[::width] // width
        caches = tuple(cache.keep(rows, sentences) for cache in self.caches)
        valid = None if self.valid is None else self.valid[sentences]
        return TransformerState(valid, caches, self.length)

    def branch(self, parents: Int[Tensor, "b w"]) -> "TransformerState":
        """Continue in w rows a sentence; the source is not copied."""
        rows = rows_of(parents, len(parents) * self.caches[0].width)
        return TransformerState(self.valid, reordered(self.caches, rows), self.length)


@final
class Transformer(Model):
    """Encoder and decoder stacks around two embeddings; padding (token 0) never leaks.

    The last norms are identities if layers are post-norm. `counts_from_the_end` means that the keys
    an encoder layer sees depend on the length of the source (BigBird's last block is global, and
    random blocks are drawn among all): sources of each length are then read separately.
    """

    def __init__(
        self,
        *,
        source: Embedding,
        target: Embedding,
        encoder: Sequence[nn.Module],
        decoder: Sequence[nn.Module],
        encoder_norm: nn.Module,
        decoder_norm: nn.Module,
        output: nn.Linear,
        counts_from_the_end: bool = False,
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.encoder_norm, self.decoder_norm = encoder_norm, decoder_norm
        self.output, self.counts_from_the_end = output, counts_from_the_end

    def hidden(self, source: SourceTokens, target: TargetTokens) -> States:
        """The input of the output layer."""
        sees_source, sees_target = padding(source != PAD), padding(target != PAD)
        h, x = self.encode(source), self.target(target)
        for layer in self.decoder:
            x = layer(x, h, sees_target, sees_source)
        return self.decoder_norm(x)

    def encode(self, source: SourceTokens) -> Float[Tensor, "b s m"]:
        """Read the source."""
        if not self.counts_from_the_end:
            return self._encode(source, padding(source != PAD))
        return read_apart(source, lambda rows, n: self._encode(source[rows, :n], FULL))

    def _encode(self, source: SourceTokens, mask: Pattern | Tensor) -> Float[Tensor, "b s m"]:
        x = self.source(source)
        places = Places.between(*(2 * source.shape[1:]), device=source.device)
        for layer in self.encoder:
            x = layer(x, mask=mask, places=places)
        return self.encoder_norm(x)

    def start(self, source: SourceTokens) -> TransformerState:
        """Read the source, and project it once for every decoder layer."""
        return self.read(source, is_full=bool((source != PAD).all()))

    @property
    def is_capturable(self) -> bool:
        """Whether a source can be read without data-dependent branches, as a CUDA graph needs."""
        return not self.counts_from_the_end and all(
            isinstance(layer, EncoderLayer) and layer.attention.explain(1).path == "fused"
            for layer in self.encoder
        )

    def read(self, source: SourceTokens, *, is_full: bool) -> TransformerState:
        """The same as `start`, told whether all tokens exist."""
        h = self._encode(source, FULL) if is_full else self.encode(source)
        caches = tuple(cast(WritingLayer, layer).start(h) for layer in self.decoder)
        return TransformerState(None if is_full else source != PAD, caches, 0)

    def step(self, state: TransformerState, tokens: NewTokens) -> tuple[Logits, TransformerState]:
        """Logits after each new token; earlier ones are in the state."""
        x, state = state.step(self.decoder, self.target(tokens, past=state.length))
        return self.output(self.decoder_norm(x)), state


def build_transformer(
    spec: TransformerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Transformer:
    """Make the encoder-decoder, and check that its masks hide what they should."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    target = parts.embedding(n_target_tokens)
    model = Transformer(
        source=target if spec.tied == "all" else parts.embedding(n_source_tokens),
        target=target,
        encoder=parts.encoder_layers(spec.n_encoder_layers),
        decoder=parts.decoder_layers(spec.n_decoder_layers),
        encoder_norm=parts.last_norm(),
        decoder_norm=parts.last_norm(),
        output=parts.output(target),
        counts_from_the_end=needs_length(spec.attention("encoder").attends),
    )
    model.hard = hard_attention(spec.draws)
    if LAYER_KINDS[spec.layer].is_faint:
        scale_output_gain(model, n_target_tokens)
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model
