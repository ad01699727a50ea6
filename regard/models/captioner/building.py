"""spec → captioner: the one place where the choices of its [model] section become parts.

The encoder begins with weights of its own. In the LSTM and around it products begin with Xavier's
weights and biases of 0, but for the forget gate's 1; embeddings are about of length 1.
"""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import nn

from regard.dims import Dims
from regard.layers.recurrent import RecurrentLayer
from regard.layers.vision import ENCODERS
from regard.models.captioner.focus import Focus, HardFocus, SoftFocus
from regard.models.captioner.looking_cell import LOOKS
from regard.models.captioner.lstm import LstmDecoder
from regard.models.captioner.network import Captioner
from regard.models.captioner.readout import READOUTS
from regard.models.captioner.spec import CaptionerSpec
from regard.models.captioner.transformer import TransformerDecoder
from regard.models.captioner.writer import Writer
from regard.models.mask_checks import check_future, check_padding
from regard.models.parts import Parts
from regard.models.spec import TransformerSpec

N_CHECKED = 5
"""Cells of the made-up pictures with which a new model is checked."""


def build_captioner(
    spec: CaptionerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Captioner:
    """Make the encoder-decoder, and see that padding and the future change nothing.

    Args:
        spec: sizes and choices.
        n_source_tokens: of no use, as pictures have no tokens.
        n_target_tokens: size of the captions' vocabulary.
    """
    encoder = spec.encoder.build(ENCODERS, Dims(d_model=spec.d_embedding))
    encoder.grid_of(spec.picture_size)
    decoder, output = WRITERS[spec.decoder](spec, encoder.d_annotation, n_target_tokens)
    model = Captioner(
        encoder=cast(nn.Module, encoder),
        decoder=decoder,
        output=output,
        d_annotation=encoder.d_annotation,
    )
    if output.weight.device.type != "meta":
        generator = torch.Generator().manual_seed(0)
        made_up = torch.randn(2, N_CHECKED, encoder.d_annotation, generator=generator)
        source = made_up.to(output.weight.device)
        check_future(model, lambda tokens: model.hidden(source, tokens), n_target_tokens)
        check_padding(model, lambda tokens: model.hidden(source, tokens), n_target_tokens)
    return model


def _lstm(spec: CaptionerSpec, d_annotation: int, n_tokens: int) -> tuple[Writer, nn.Linear]:
    embedding = nn.Embedding(n_tokens, spec.d_embedding)
    output = nn.Linear(spec.d_embedding, n_tokens, bias=False)
    decoder = LstmDecoder(
        embedding=embedding,
        look=LOOKS[spec.look],
        focus=FOCUSES[spec.select](spec),
        speaks=READOUTS[spec.readout],
        d_annotation=d_annotation,
        d_hidden=spec.d_hidden,
        d_attention=spec.d_attention or d_annotation,
        dropout=spec.dropout,
        state_dropout=spec.state_dropout,
    )
    _first_weights(decoder, output)
    if spec.tied != "none":
        output.weight = embedding.weight
    return decoder, output


def _transformer(spec: CaptionerSpec, d_annotation: int, n_tokens: int) -> tuple[Writer, nn.Linear]:
    parts = Parts(
        TransformerSpec(
            d_model=spec.d_embedding,
            n_heads=spec.n_heads,
            d_hidden=spec.d_hidden,
            n_decoder_layers=spec.n_layers,
            dropout=spec.dropout,
            norm="pre_norm",
            tied=spec.tied,
            max_len=spec.max_len,
        )
    )
    embedding = parts.embedding(n_tokens)
    decoder = TransformerDecoder(
        parts.dims,
        embedding=embedding,
        layers=parts.decoder_layers(spec.n_layers),
        norm=parts.last_norm(),
        d_annotation=d_annotation,
        dropout=spec.dropout,
    )
    return decoder, parts.output(embedding)


def _soft(spec: CaptionerSpec) -> Focus:
    return SoftFocus(penalty=spec.penalty)


def _hard(spec: CaptionerSpec) -> Focus:
    return HardFocus(
        n_samples=spec.n_samples,
        reinforce=spec.reinforce,
        entropy=spec.entropy,
        expected_share=spec.expected_share,
        learns_from_expected=spec.learns_from_expected,
        credit=spec.credit,
        at_test=spec.at_test,
        penalty=spec.penalty,
    )


WRITERS: Mapping[str, Callable[[CaptionerSpec, int, int], tuple[Writer, nn.Linear]]] = {
    "lstm": _lstm,
    "transformer": _transformer,
}
"""What `model.decoder` may name: a decoder and its output layer, for annotations and vocabulary."""

FOCUSES: Mapping[str, Callable[[CaptionerSpec], Focus]] = {"soft": _soft, "hard": _hard}
"""What `model.select` may name."""


@torch.no_grad()
def _first_weights(decoder: nn.Module, output: nn.Linear) -> None:
    """See above; the score has its own first weights."""
    for part in (*decoder.modules(), output):
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
        elif isinstance(part, RecurrentLayer):
            for weight in (part.of_input, part.of_state):
                for gate in weight.chunk(part.recurrence.n_gates):
                    nn.init.xavier_uniform_(gate)
            part.of_input[:, -1] = part.recurrence.bias(part.kernel.hidden_size)
