"""spec → recurrent model: the one place where the choices of its [model] section become parts."""

from torch import nn

from regard.attention import SCORES, SELECTIONS, Chain
from regard.layers.recurrent import BRIDGES, READOUTS, RECURRENCES, RecurrentCells, RecurrentEncoder
from regard.models.mask_checks import check_future, check_padding
from regard.models.recurrent.attention import Look, NoLook
from regard.models.recurrent.decoders import FEEDING_CELLS, AtOnceDecoder, Says, SteppingDecoder
from regard.models.recurrent.initialisation import INITIALISATIONS
from regard.models.recurrent.network import Recurrent
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.ties import check_sides


def build_recurrent(
    spec: RecurrentSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Recurrent:
    """Make the encoder-decoder, and see that padding and the future change nothing."""
    check_sides(spec.tied, n_source_tokens, n_target_tokens)
    recurrence, target = RECURRENCES[spec.cell], nn.Embedding(n_target_tokens, spec.d_embedding)
    own_source = nn.Embedding(n_source_tokens, spec.d_embedding)
    output = nn.Linear(spec.d_readout, n_target_tokens, bias=False)
    if spec.tied != "none":
        output.weight = target.weight
    model = Recurrent(
        source=target if spec.tied == "all" else own_source,
        target=target,
        encoder=RecurrentEncoder(
            recurrence,
            d_input=spec.d_embedding,
            d_hidden=spec.d_hidden,
            n_layers=spec.n_layers,
            reads=spec.reads,
            dropout=spec.dropout,
        ),
        bridge=BRIDGES[spec.bridge](
            recurrence, reads=spec.reads, d_hidden=spec.d_hidden, n_layers=spec.n_layers
        ),
        decoder=_decoder(spec),
        output=output,
        dropout=spec.dropout,
        attends_to_end=spec.attends_to_end,
    )
    INITIALISATIONS[spec.initialisation](model)
    if output.weight.device.type != "meta":
        n_tokens = min(n_source_tokens, n_target_tokens)
        # the token that is changed is none of the source's
        check_future(model, lambda tokens: model.hidden(tokens[:, :-1], tokens), n_tokens)
        check_padding(model, lambda tokens: model.hidden(tokens, tokens), n_tokens)
    return model


def _decoder(spec: RecurrentSpec) -> AtOnceDecoder | SteppingDecoder:
    d_more = spec.d_readout * spec.feeds_input + spec.d_context * (spec.attends == "previous")
    cells = RecurrentCells(
        RECURRENCES[spec.cell],
        d_known=spec.d_embedding,
        d_more=d_more,
        d_hidden=spec.d_hidden,
        n_layers=spec.n_layers,
        dropout=spec.dropout,
    )
    readout = READOUTS[spec.readout](
        d_context=spec.d_context, d_hidden=spec.d_hidden, d_embedding=spec.d_embedding
    )
    says = Says(readout, spec.readout_dropout)
    if not spec.d_context:
        return AtOnceDecoder(cells=cells, look=NoLook(), says=says)
    look = _look(spec)
    if not spec.waits:
        return AtOnceDecoder(cells=cells, look=look, says=says)
    cell = FEEDING_CELLS[spec.attends]
    return SteppingDecoder(cell(cells=cells, look=look, says=says, feeds=spec.feeds_input))


def _look(spec: RecurrentSpec) -> Look:
    chain = Chain(
        spec.score.build(SCORES, spec.dims), select=spec.select.build(SELECTIONS, spec.dims)
    )
    return Look(chain, d_key=spec.d_states, has_coverage=spec.has_coverage)
