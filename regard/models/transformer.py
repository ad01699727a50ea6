"""The Transformer: an encoder reads the source, a decoder writes the target word by word.

    h = encoder(embed(source)),   logits[t] = decoder(embed(target[:t]), h) Eᵀ

Paper: Vaswani et al. 2017, section 3.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import FULL, AttentionMap, padding
from regard.attention.capture import captured
from regard.attention.links import Pattern
from regard.attention.masks import Padding
from regard.layers import DecoderCache, EncoderLayer
from regard.layers.decoder_layer import reordered
from regard.models.by_length import read_apart
from regard.models.embedding import Embedding
from regard.models.mask_checks import check_hidden
from regard.models.model import Model
from regard.models.stepper import PAD, rows_of
from regard.places import Places, Tree


@runtime_checkable
class WritingLayer(Protocol):
    """A decoder layer, of whatever kind, that can go on from a cache."""

    def start(self, source: Float[Tensor, "b s m"]) -> DecoderCache:
        """Project the source once."""

    def step(
        self, x: Float[Tensor, "r t m"], cache: DecoderCache, *, source_mask: Pattern
    ) -> tuple[Float[Tensor, "r t m"], DecoderCache]:
        """The next positions, and the longer cache."""


class TransformerState(NamedTuple):
    """What decoding remembers: the source's mask, and every decoder layer's cache."""

    valid: Bool[Tensor, "b s"] | None
    """The source's tokens that exist; None if all do, which the fastest kernels want to know."""
    caches: tuple[DecoderCache, ...]
    length: int
    """Target tokens seen so far."""


@final
class Transformer(Model):
    """Encoder and decoder stacks around two embeddings; padding (token 0) never leaks.

    Args:
        source: embeds the source.
        target: embeds the target.
        encoder: layers that map `b s m` to `b s m`, given mask and places.
        decoder: decoder layers.
        encoder_norm: the last norm of the encoder; identity if its layers are post-norm.
        decoder_norm: the last norm of the decoder.
        output: maps `b t m` to logits; its weight may be an embedding's.
        counts_from_the_end: whether what an encoder layer sees depends on the length of the source
            (BigBird's last block is global, and random blocks are drawn among all). Such sources
            are read apart from longer ones.
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

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        tree: Tree | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Logits for the token after each target token, all at once."""
        return self.output(self.hidden(source, target, tree))

    def hidden(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        tree: Tree | None = None,
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        sees_source, sees_target = _mask(source != PAD), _mask(target != PAD)
        h, x = self.encode(source, tree), self.target(target)
        for layer in self.decoder:
            x = layer(x, h, sees_target, sees_source)
        return self.decoder_norm(x)

    def encode(
        self, source: Int[Tensor, "b s"], tree: Tree | None = None
    ) -> Float[Tensor, "b s m"]:
        """Read the source."""
        if not self.counts_from_the_end:
            return self._encode(source, tree, _mask(source != PAD))
        return read_apart(
            source,
            lambda rows, n: self._encode(
                source[rows, :n], None if tree is None else tree.part(rows, n), FULL
            ),
        )

    def _encode(
        self, source: Int[Tensor, "b s"], tree: Tree | None, mask: Pattern | Tensor
    ) -> Float[Tensor, "b s m"]:
        x = self.source(source, tree=tree)
        places = Places.between(*(2 * source.shape[1:]), tree=tree, device=source.device)
        for layer in self.encoder:
            x = layer(x, mask=mask, places=places)
        return self.encoder_norm(x)

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row looks: "encoder", "decoder" and "cross", a map for each layer."""
        with captured(self) as maps:
            self.hidden(source, target)
        encoder, decoder = (
            [[found for name, found in maps.items() if name.startswith(f"{stack}.{i}.")] for i in n]
            for stack, n in (
                ("encoder", range(len(self.encoder))),
                ("decoder", range(len(self.decoder))),
            )
        )
        # the last chain of a decoder layer is the one that looks at the source
        return {
            "encoder": tuple(layer[0] for layer in encoder),
            "decoder": tuple(layer[0] for layer in decoder),
            "cross": tuple(layer[-1] for layer in decoder),
        }

    def start(self, source: Int[Tensor, "b s"]) -> TransformerState:
        """Read the source, and project it once for every decoder layer."""
        return self.read(source, is_full=bool((source != PAD).all()))

    @property
    def is_recordable(self) -> bool:
        """Whether a source can be read without a look at its numbers: kernels take every layer."""
        return not self.counts_from_the_end and all(
            isinstance(layer, EncoderLayer) and layer.attention.explain(1).path == "fused"
            for layer in self.encoder
        )

    def read(self, source: Int[Tensor, "b s"], *, is_full: bool) -> TransformerState:
        """The same as `start`, told whether all tokens exist."""
        h = self._encode(source, None, FULL) if is_full else self.encode(source)
        caches = tuple(layer.start(h) for layer in self._decoder())
        return TransformerState(None if is_full else source != PAD, caches, 0)

    def step(
        self, state: TransformerState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], TransformerState]:
        """Logits after each new token; earlier ones are in the state."""
        x, caches = self.target(tokens, past=state.length), []
        sees_source = FULL if state.valid is None else _mask(state.valid)
        for layer, cache in zip(self._decoder(), state.caches, strict=True):
            x, longer = layer.step(x, cache, source_mask=sees_source)
            caches.append(longer)
        after = TransformerState(state.valid, tuple(caches), state.length + tokens.shape[1])
        return self.output(self.decoder_norm(x)), after

    def select(self, state: TransformerState, rows: Int[Tensor, " r"]) -> TransformerState:
        """The state of some rows, all or none of a sentence's, each with its sentence."""
        width = state.caches[0].width
        sentences = rows[::width] // width
        caches = tuple(cache.keep(rows, sentences) for cache in state.caches)
        valid = None if state.valid is None else state.valid[sentences]
        return TransformerState(valid, caches, state.length)

    def branch(self, state: TransformerState, parents: Int[Tensor, "b w"]) -> TransformerState:
        """Go on in w rows a sentence; the source stays where it is."""
        rows = rows_of(parents, len(parents) * state.caches[0].width)
        return TransformerState(state.valid, reordered(state.caches, rows), state.length)

    def _decoder(self) -> list[WritingLayer]:
        return cast(list[WritingLayer], list(self.decoder))


def _mask(valid: Bool[Tensor, "b n"]) -> Padding:
    return padding(valid)


def check_masks(model: Transformer, n_tokens: int) -> None:
    """See for oneself that the future and the padding are hidden; raises if they are not."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(PAD + 4, max(n_tokens, PAD + 6), (2, 2, 6), generator=generator)
    source, target = drawn.to(next(model.parameters()).device)
    other = target.clone()
    other[:, -1] = torch.where(other[:, -1] == n_tokens - 1, PAD + 4, n_tokens - 1)
    longer = nn.functional.pad(source, (0, 3), value=PAD)
    check_hidden(
        model,
        lambda: (model(source, target)[:, :-1], model(source, other)[:, :-1]),
        leak="a later token changes earlier logits",
    )
    check_hidden(
        model, lambda: (model(source, target), model(longer, target)), leak="padding changes logits"
    )
