"""The recurrent encoder-decoder: one network reads, another writes and looks back at it.

    h = encoder(E x),   s[0] = bridge(h),   logits[t] = W readout(look(s, h), s[t], E y[t])

Which state looks, how it scores and selects, and whether what it saw is fed back are parts; without
a look, one vector has to hold the whole source.

Paper: Sutskever, Vinyals & Le 2014 (no look); Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning
2015.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.attention.dropout import Dropout
from regard.layers.recurrent import RecurrentEncoder
from regard.models.model import Model
from regard.models.recurrent.attention import Memory
from regard.models.recurrent.decoders import AtOnceDecoder, Carried, Source, SteppingDecoder
from regard.models.stepper import EOS, PAD, rows_of


class RecurrentState(NamedTuple):
    """What decoding remembers: the source of each sentence, and what each row carries on."""

    memory: Memory
    carried: Carried
    length: int
    """Target tokens seen so far."""

    @property
    def n_rows(self) -> int:
        """Rows of all sentences together."""
        return len(self.carried.fed)

    @property
    def width(self) -> int:
        """How many rows a sentence has."""
        return self.n_rows // len(self.memory.visible)


@final
class Recurrent(Model):
    """Encoder, bridge and decoder between two embeddings; padding (token 0) never leaks.

    Args:
        source: embeds the source.
        target: embeds the target.
        encoder: reads the source.
        bridge: makes the decoder's first state of the encoder's last one.
        decoder: writes, and looks at the source.
        output: maps `b t m` to logits; its weight may be an embedding's.
        dropout: on the embeddings.
        attends_to_end: whether the source's end token may be looked at.
    """

    def __init__(
        self,
        *,
        source: nn.Embedding,
        target: nn.Embedding,
        encoder: RecurrentEncoder,
        bridge: nn.Module,
        decoder: AtOnceDecoder | SteppingDecoder,
        output: nn.Linear,
        dropout: float = 0.0,
        attends_to_end: bool = False,
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.encoder, self.bridge, self.decoder = encoder, bridge, decoder
        self.output, self.dropout = output, Dropout(dropout)
        self.unseen = PAD if attends_to_end else EOS
        """The source's tokens that may not be looked at, beside padding."""

    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        return self.decoder(self._words(target), self.encode(source))

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """The map of a pass over what `hidden` takes, under "cross"; nothing if nobody looks.

        A row stands for a target token that is read. If the begin token comes first, row i
        predicts token i of the text, and one more row predicts the end.
        """
        found = self.decoder.map(self._words(target), self.encode(source))
        return {"cross": found} if found else {}

    def repeated(self) -> Iterator[nn.Module]:
        """The step of a decoder whose steps wait for each other."""
        return self.decoder.repeated()

    def encode(self, source: Int[Tensor, "b s"]) -> Source:
        """Read the source."""
        valid = source != PAD
        encoded = self.encoder(self.dropout(self.source(source)), valid)
        visible = valid & (source != self.unseen)
        return Source(encoded.states, visible, self.bridge(encoded.last))

    def start(self, source: Int[Tensor, "b s"]) -> RecurrentState:
        """Read the source, and do with its keys what can be done once."""
        read = self.encode(source)
        return RecurrentState(self.decoder.remember(read), self.decoder.begin(read), 0)

    def step(
        self, state: RecurrentState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], RecurrentState]:
        """Logits after each new token; earlier ones are in the state."""
        memory, carried, past = state
        said, carried = self.decoder.step(self._words(tokens), memory, carried, past=past)
        return self.output(said), RecurrentState(memory, carried, past + tokens.shape[1])

    def select(self, state: RecurrentState, rows: Int[Tensor, " r"]) -> RecurrentState:
        """The state of some rows, all or none of a sentence's, each with its sentence."""
        sentences = rows[:: state.width] // state.width
        memory, carried = state.memory.select(sentences), state.carried.select(rows)
        return RecurrentState(memory, carried, state.length)

    def branch(self, state: RecurrentState, parents: Int[Tensor, "b w"]) -> RecurrentState:
        """Go on in w rows a sentence; the source stays where it is."""
        carried = state.carried.select(rows_of(parents, state.n_rows))
        return state._replace(carried=carried)

    def _words(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        return self.dropout(self.target(tokens))
