"""The convolutional model: windows read the source, windows write the target, attention joins them.

    z = encoder(e),   h[l] = attending convolution(h[l-1], z, e),   logits[t] = (W h[L][t] + c) Eᵀ

No word waits for another: all positions of a layer are computed at once, and a word meets words as
far away as the windows of all layers together reach.

Paper: Gehring et al. 2017 (ConvS2S).
"""

from collections.abc import Sequence
from typing import NamedTuple, cast, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.attention.dropout import Dropout
from regard.models.convolutional.layer import AttendingConvolution, ReadSource
from regard.models.embedding import Embedding
from regard.models.model import Model
from regard.models.stepper import PAD, rows_of


class ConvolutionalState(NamedTuple):
    """What decoding remembers: the source, and the last words that each window has read."""

    source: ReadSource
    pasts: tuple[Float[Tensor, "r p m"], ...]
    """For every decoder layer, a row for each hypothesis; as long at the end as at the start."""
    length: int
    """Target tokens seen so far."""

    @property
    def width(self) -> int:
        """How many hypotheses a sentence has."""
        return len(self.pasts[0]) // max(1, self.source.n_sentences)


@final
class Convolutional(Model):
    """Stacks of gated convolutions between two embeddings; padding (token 0) never leaks.

    Args:
        source: embeds the source.
        target: embeds the target.
        encoder: symmetric convolutions (`GatedConvolution`).
        decoder: causal ones, each with its attention.
        last: what stands between the decoder and the output layer, so that a state need not look
            like the word that it says.
        output: maps `b t m` to logits; its weight may be an embedding's.
        dropout: on what the output layer reads.
    """

    def __init__(
        self,
        *,
        source: Embedding,
        target: Embedding,
        encoder: Sequence[nn.Module],
        decoder: Sequence[AttendingConvolution],
        last: nn.Linear,
        output: nn.Linear,
        dropout: float,
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.last, self.output, self.dropout = last, output, Dropout(dropout)

    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        read, valid = self.encode(source), target != PAD
        x = embedded = self.target(target)
        for layer in self.decoder:
            x = layer(x, embedded, read, valid)
        return self.dropout(self.last(x))

    def encode(self, source: Int[Tensor, "b s"]) -> ReadSource:
        """Read the source."""
        valid = source != PAD
        x = embedded = self.source(source)
        for layer in self.encoder:
            x = layer(x, valid)
        return ReadSource.of(x, embedded, valid)

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row looks: "cross", a map for each decoder layer."""
        with captured(self) as maps:
            self.hidden(source, target)
        return {"cross": tuple(maps.values())}

    def start(self, source: Int[Tensor, "b s"]) -> ConvolutionalState:
        """Read the source, once for all decoder layers."""
        pasts = tuple(layer.convolution.start(len(source)) for layer in self._decoder())
        return ConvolutionalState(self.encode(source), pasts, 0)

    def step(
        self, state: ConvolutionalState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], ConvolutionalState]:
        """Logits after each new token; the windows' earlier ones are in the state."""
        valid, pasts = tokens != PAD, []
        x = embedded = self.target(tokens, past=state.length)
        for layer, past in zip(self._decoder(), state.pasts, strict=True):
            x, later = layer.step(x, embedded, state.source, valid, past=past, n_past=state.length)
            pasts.append(later)
        after = ConvolutionalState(state.source, tuple(pasts), state.length + tokens.shape[1])
        return self.output(self.dropout(self.last(x))), after

    def select(self, state: ConvolutionalState, rows: Int[Tensor, " r"]) -> ConvolutionalState:
        """The state of some rows, all or none of a sentence's, each with its sentence."""
        source = state.source.select(rows[:: state.width] // state.width)
        return ConvolutionalState(source, _rows(state.pasts, rows), state.length)

    def branch(self, state: ConvolutionalState, parents: Int[Tensor, "b w"]) -> ConvolutionalState:
        """Go on in w rows a sentence; the source stays where it is."""
        rows = rows_of(parents, len(state.pasts[0]))
        return ConvolutionalState(state.source, _rows(state.pasts, rows), state.length)

    def _decoder(self) -> list[AttendingConvolution]:
        return cast(list[AttendingConvolution], list(self.decoder))


def _rows(pasts: tuple[Tensor, ...], rows: Int[Tensor, " r"]) -> tuple[Tensor, ...]:
    return tuple(past.index_select(0, rows) for past in pasts)
