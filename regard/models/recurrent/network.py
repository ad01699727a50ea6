"""The recurrent encoder-decoder, with attention or without.

    h = encoder(E x),   s[0] = bridge(h),   logits[t] = W readout(look(s, h), s[t], E y[t])

The state that attends, its score and selection, and feeding back the readout are choices of the
spec; without attention, one vector has to hold the whole source.

Paper: Sutskever, Vinyals & Le 2014 (no look); Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning
2015.
"""

from collections.abc import Iterator
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import SCORES, SELECTIONS, Chain
from regard.attention.dropout import Dropout
from regard.layers.recurrent import BRIDGES, READOUTS, RECURRENCES, RecurrentCells, RecurrentEncoder
from regard.models.hard_attention import hard_attention
from regard.models.mask_checks import check_masks
from regard.models.model import Model
from regard.models.recurrent.attention import Source, SourceAttention
from regard.models.recurrent.decoders import (
    AtOnceDecoder,
    DecoderCell,
    DroppedReadout,
    SteppingDecoder,
)
from regard.models.recurrent.initialisation import INITIALISATIONS
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.shapes import Logits, Maps, NewTokens, SourceTokens, States, TargetTokens
from regard.models.stepper import EOS, PAD, DecodingState


@final
class Recurrent(Model):
    """Encoder, bridge and decoder between two embeddings; padding (token 0) never leaks."""

    def __init__(self, spec: RecurrentSpec, n_source_tokens: int, n_target_tokens: int) -> None:
        super().__init__()
        recurrence, target = RECURRENCES[spec.cell], nn.Embedding(n_target_tokens, spec.d_embedding)
        own_source = nn.Embedding(n_source_tokens, spec.d_embedding)
        output = nn.Linear(spec.d_readout, n_target_tokens, bias=False)
        if spec.tied != "none":
            output.weight = target.weight
        self.source, self.target = target if spec.tied == "all" else own_source, target
        self.encoder = RecurrentEncoder(
            recurrence,
            d_input=spec.d_embedding,
            d_hidden=spec.d_hidden,
            n_layers=spec.n_layers,
            reads=spec.reads,
            dropout=spec.dropout,
        )
        self.bridge = BRIDGES[spec.bridge](
            recurrence, reads=spec.reads, d_hidden=spec.d_hidden, n_layers=spec.n_layers
        )
        self.decoder = _decoder(spec)
        self.output, self.dropout = output, Dropout(spec.dropout)
        self.unseen = PAD if spec.attends_to_end else EOS
        """The source token that is hidden from attention, besides padding."""

    def hidden(self, source: SourceTokens, target: TargetTokens) -> States:
        """The input of the output layer."""
        return self.decoder(self._words(target), self.encode(source))

    def maps(self, source: SourceTokens, target: TargetTokens) -> Maps:
        """The map of a pass over what `hidden` takes, under "cross"; nothing without attention.

        A row stands for a target token that is read. If the begin token comes first, row i
        predicts token i of the text, and one more row predicts the end.
        """
        found = self.decoder.map(self._words(target), self.encode(source))
        return {"cross": found} if found else {}

    def repeated(self) -> Iterator[nn.Module]:
        """The step of a decoder whose steps wait for each other."""
        # a compiled step cannot tell what it drew
        return iter(()) if self.hard is not None else self.decoder.repeated()

    def encode(self, source: SourceTokens) -> Source:
        """Read the source."""
        valid = source != PAD
        encoded = self.encoder(self.dropout(self.source(source)), valid)
        visible = valid & (source != self.unseen)
        return Source(encoded.states, visible, self.bridge(encoded.last))

    def start(self, source: SourceTokens) -> DecodingState:
        """Read the source, and project its keys once."""
        return self.decoder.start(self.encode(source))

    def step(self, state: DecodingState, tokens: NewTokens) -> tuple[Logits, DecodingState]:
        """Logits after each new token; earlier ones are in the state."""
        said, state = self.decoder.step(self._words(tokens), state)
        return self.output(said), state

    def _words(self, tokens: TargetTokens) -> Float[Tensor, "b t e"]:
        return self.dropout(self.target(tokens))


def build_recurrent(
    spec: RecurrentSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Recurrent:
    """Make the encoder-decoder, and check that padding and the future change nothing."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    model = Recurrent(spec, n_source_tokens, n_target_tokens)
    INITIALISATIONS[spec.initialisation](model)
    model.hard = hard_attention(spec.draws)
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model


def _decoder(spec: RecurrentSpec) -> AtOnceDecoder | SteppingDecoder:
    looks_first = spec.attends == "previous"
    cells = RecurrentCells(
        RECURRENCES[spec.cell],
        d_known=spec.d_embedding,
        d_more=spec.d_readout * spec.feeds_input + spec.d_context * looks_first,
        d_hidden=spec.d_hidden,
        n_layers=spec.n_layers,
        dropout=spec.dropout,
    )
    readout = READOUTS[spec.readout](
        d_context=spec.d_context, d_hidden=spec.d_hidden, d_embedding=spec.d_embedding
    )
    dropped = DroppedReadout(readout, spec.readout_dropout)
    look = None
    if spec.d_context:
        chain = Chain(
            spec.score.build(SCORES, spec.dims), select=spec.select.build(SELECTIONS, spec.dims)
        )
        look = SourceAttention(chain, has_coverage=spec.has_coverage)
    if look is None or not spec.waits:
        return AtOnceDecoder(cells=cells, look=look, readout=dropped)
    return SteppingDecoder(
        DecoderCell(
            cells=cells, look=look, readout=dropped, feeds=spec.feeds_input, looks_first=looks_first
        )
    )
