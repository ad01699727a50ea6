"""The captioner: an encoder makes a grid of annotations, from which a decoder writes a caption.

    a = encoder(picture),   logits[t] = L_o decoder(y[:t], a)

A source is a picture, or annotations that were computed before: those of a frozen encoder are
computed once and kept.

The encoder initialises its own weights. Linear layers in and around the LSTM begin with Xavier's
weights and biases of 0, except 1 for the forget gate; embeddings have a length of about 1.

Paper: Xu et al. 2015 (Show, Attend and Tell), section 3.1.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.layers.recurrent import RecurrentLayer
from regard.layers.vision import ENCODERS, ImageEncoder
from regard.models.captioner.lstm import LstmDecoder
from regard.models.captioner.spec import CaptionerSpec
from regard.models.captioner.transformer import TransformerDecoder
from regard.models.mask_checks import check_future, check_padding
from regard.models.model import Model
from regard.models.parts import Parts
from regard.models.shapes import Annotations, Logits, Maps, NewTokens, States, TargetTokens
from regard.models.spec import TransformerSpec
from regard.models.stepper import Stepper
from regard.models.trainable import LossInputs

Seen = UInt8[Tensor, "b 3 y x"] | Annotations
"""Pictures, or their annotations: one vector for each cell, row by row."""

Decoder = LstmDecoder | TransformerDecoder

N_CHECKED_CELLS = 5
"""Cells of the random annotations with which a new model is checked."""


@final
class Captioner(Model):
    """An encoder of pictures and a decoder of words."""

    def __init__(self, *, encoder: ImageEncoder, decoder: Decoder, output: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.decoder, self.output = encoder, decoder, output

    def annotations(self, source: Shaped[Tensor, "b ..."]) -> Annotations:
        """Encode pictures; annotations only change to the precision of the weights."""
        if source.dim() == 4:
            return self.encoder(source)
        wanted = self.encoder.d_annotation
        if source.dim() != 3 or source.shape[-1] != wanted or not source.is_floating_point():
            raise ShapeError(
                "captioner: expected pictures (b, 3, y, x) or annotations (b, l, "
                f"{wanted}) of real numbers, got {tuple(source.shape)} of {source.dtype}. A text "
                "is no source for it: take data with pictures, or another model.kind."
            )
        return source.to(self.output.weight.dtype)

    def hidden(self, source: Seen, target: TargetTokens) -> States:
        """The input of the output layer."""
        return self.decoder.hidden(self.annotations(source), target)

    def loss_inputs(self, source: Seen, target: TargetTokens) -> LossInputs:
        """Every target token is predicted; in training the loss may depend on the weights too."""
        return self.decoder.loss_inputs(self.annotations(source), target)

    def maps(self, source: Seen, target: TargetTokens) -> Maps:
        """Where each row looks, of a pass over what `hidden` takes; "cross" has the cells.

        A row stands for a target token that is read. If the begin token comes first, row i
        predicts token i of the caption, and one more row predicts the end.
        """
        return self.decoder.maps(self.annotations(source), target)

    def gates(self, source: Seen, target: TargetTokens) -> Float[Tensor, "b t"] | None:
        """The gate of each row on its context, from 0 to 1; None without gates."""
        return self.decoder.gates(self.annotations(source), target)

    def start(self, source: Seen) -> Any:
        """Encode the pictures, and compute all that the steps share."""
        return self.decoder.start(self.annotations(source))

    def step(self, state: Any, tokens: NewTokens) -> tuple[Logits, Any]:
        """Logits after each new token; earlier ones are in the state."""
        said, state = self.decoder.step(state, tokens)
        return self.output(said), state

    def repeated(self) -> Iterator[nn.Module]:
        """The decoder's layers, or its step."""
        return self.decoder.repeated()


@final
class Album:
    """A captioner for searches, whose sources are numbers of pictures instead of words.

        Beam()(Album(model, pictures.__getitem__), [Sentence([0]), Sentence([1]), …])

    A search reads sentences of token ids. Here a sentence is one number, and `fetch` gives the
    pictures, or annotations, of a batch of numbers.
    """

    def __init__(self, model: Stepper, fetch: Callable[[Int[Tensor, " b"]], Seen]) -> None:
        self.model, self.fetch = model, fetch
        self.step, self.select, self.branch = model.step, model.select, model.branch

    def start(self, source: Int[Tensor, "b 1"]) -> Any:
        """Fetch the pictures and encode them."""
        return self.model.start(self.fetch(source[:, 0]))


def build_captioner(
    spec: CaptionerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Captioner:
    """Make the encoder-decoder, and check that padding and the future change nothing.

    `n_source_tokens` has no effect, as pictures have no tokens.
    """
    encoder = spec.encoder.build(ENCODERS, spec.dims)
    encoder.grid_of(spec.picture_size)
    decoder, output = DECODERS[spec.decoder](spec, encoder.d_annotation, n_target_tokens)
    model = Captioner(encoder=encoder, decoder=decoder, output=output)
    draws = torch.Generator().manual_seed(0)
    made_up = torch.randn(2, N_CHECKED_CELLS, encoder.d_annotation, generator=draws)
    source = made_up.to(output.weight.device)
    check_future(model, lambda tokens: model.hidden(source, tokens), n_target_tokens)
    check_padding(model, lambda tokens: model.hidden(source, tokens), n_target_tokens)
    return model


def _lstm(spec: CaptionerSpec, d_annotation: int, n_tokens: int) -> tuple[Decoder, nn.Linear]:
    embedding = nn.Embedding(n_tokens, spec.d_embedding)
    output = nn.Linear(spec.d_embedding, n_tokens, bias=False)
    decoder = LstmDecoder(spec, embedding, d_annotation)
    _first_weights(decoder, output)
    if spec.tied != "none":
        output.weight = embedding.weight
    return decoder, output


def _transformer(
    spec: CaptionerSpec, d_annotation: int, n_tokens: int
) -> tuple[Decoder, nn.Linear]:
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
    decoder = TransformerDecoder(
        parts, n_layers=spec.n_layers, n_tokens=n_tokens, d_annotation=d_annotation
    )
    return decoder, parts.output(decoder.embedding)


DECODERS: Mapping[str, Callable[[CaptionerSpec, int, int], tuple[Decoder, nn.Linear]]] = {
    "lstm": _lstm,
    "transformer": _transformer,
}
"""What `model.decoder` may name: a decoder and its output layer, for annotations and vocabulary."""


@torch.no_grad()
def _first_weights(decoder: nn.Module, output: nn.Linear) -> None:
    """Initialise as the module's docstring describes; the score initialises itself."""
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
