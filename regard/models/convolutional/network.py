"""The convolutional model: convolutions encode and decode, and attention joins the two stacks.

    z = encoder(e),   h[l] = attending convolution(h[l-1], z, e),   logits[t] = (W h[L][t] + c) Eᵀ

All positions of a layer are computed at once, and a word depends on words as far away as the
windows of all layers together reach.

First weights, so that layers keep the variance, and dot products of wide vectors begin well below
saturation:

    before a gate     N(0, 4 p / n_in)       p: how likely an input is kept by the dropout
    other products    N(0, p / n_in)         n_in: how many inputs a sum has
    embeddings        N(0, 0.1²)             biases 0

Paper: Gehring et al. 2017 (ConvS2S); section 3.5 (first weights).
"""

from collections.abc import Callable, Mapping
from typing import cast, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import SCORES, SELECTIONS, Chain
from regard.attention.dropout import Dropout
from regard.dims import Dims
from regard.layers.convolution import GatedConvolution
from regard.models.convolutional.layer import AttendingConvolution, ReadSource
from regard.models.convolutional.spec import DILATIONS, ConvolutionalSpec
from regard.models.embedding import Embedding
from regard.models.hard_attention import hard_attention
from regard.models.mask_checks import check_masks
from regard.models.model import Model
from regard.models.shapes import Logits, NewTokens, SourceTokens, States, TargetTokens
from regard.models.spec import no_positions
from regard.models.stepper import PAD, DecodingState
from regard.places import Tree
from regard.positions import LearnedPositions, SinusoidalPositions

LOUDNESS = 0.1
"""Standard deviation of the first embeddings, words and positions alike."""


@final
class Convolutional(Model):
    """Stacks of gated convolutions between two embeddings; padding (token 0) never leaks.

    The encoder's convolutions are symmetric. `last` maps the decoder's states to the
    output layer's input, so that a state need not resemble the predicted word; dropout follows it.
    """

    def __init__(self, spec: ConvolutionalSpec, n_source_tokens: int, n_target_tokens: int) -> None:
        super().__init__()
        target = _embedding(spec, n_target_tokens)
        self.source = target if spec.tied == "all" else _embedding(spec, n_source_tokens)
        self.target = target
        self.encoder = nn.ModuleList(
            _convolution(spec, layer, is_causal=False) for layer in range(spec.n_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            AttendingConvolution(
                spec.dims,
                convolution=_convolution(spec, layer, is_causal=True),
                chain=Chain(
                    spec.score.build(SCORES, spec.dims),
                    select=spec.select.build(SELECTIONS, spec.dims),
                ),
            )
            for layer in range(spec.n_decoder_layers)
        )
        self.last, self.output = _last(spec), _output(spec, target)
        self.dropout = Dropout(spec.dropout)

    def hidden(self, source: SourceTokens, target: TargetTokens) -> States:
        """The input of the output layer."""
        read, valid = self.encode(source), target != PAD
        x = embedded = self.target(target)
        for layer in self.decoder:
            x = layer(x, embedded, read, valid)
        return self.dropout(self.last(x))

    def encode(self, source: SourceTokens) -> ReadSource:
        """Read the source."""
        valid = source != PAD
        x = embedded = self.source(source)
        for layer in self.encoder:
            x = layer(x, valid)
        root = valid.sum(1).to(x.dtype).sqrt()[:, None, None]
        return ReadSource(x[:, None], ((x + embedded) * root)[:, None], valid)

    def start(self, source: SourceTokens) -> DecodingState:
        """Read the source, once for all decoder layers."""
        pasts = tuple(layer.convolution.start(len(source)) for layer in self._decoder())
        return DecodingState(self.encode(source), pasts)

    def step(self, state: DecodingState, tokens: NewTokens) -> tuple[Logits, DecodingState]:
        """Logits after each new token; the windows' earlier ones are in the state."""
        valid, pasts = tokens != PAD, []
        x = embedded = self.target(tokens, past=state.length)
        for layer, past in zip(self._decoder(), state.rows, strict=True):
            x, later = layer.step(x, embedded, state.source, valid, past=past, n_past=state.length)
            pasts.append(later)
        after = DecodingState(state.source, tuple(pasts), state.length + tokens.shape[1])
        return self.output(self.dropout(self.last(x))), after

    def _decoder(self) -> list[AttendingConvolution]:
        return cast(list[AttendingConvolution], list(self.decoder))


def build_convolutional(
    spec: ConvolutionalSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Convolutional:
    """Make the encoder-decoder, and check that the future and the padding are hidden."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    model = Convolutional(spec, n_source_tokens, n_target_tokens)
    model.hard = hard_attention(spec.draws)
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model


@final
class FaintPositions(nn.Module):
    """Sinusoidal positions, scaled down to the size of the words' first embeddings."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.positions = SinusoidalPositions(dims)

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """The sinusoidal vectors, scaled down."""
        return LOUDNESS * self.positions(positions, tree)


def _learned(dims: Dims) -> nn.Module:
    positions = LearnedPositions(dims)
    nn.init.normal_(positions.P.weight, std=LOUDNESS)
    return positions


ADDED_POSITIONS: Mapping[str, Callable[[Dims], nn.Module | None]] = {
    "learned": _learned,
    "sinusoidal": FaintPositions,
    "none": no_positions,
}
"""Positions that can be added to embeddings, at the same scale."""


def _embedding(spec: ConvolutionalSpec, n_tokens: int) -> Embedding:
    positions = spec.positions.build(ADDED_POSITIONS, spec.dims)
    embedding = Embedding(
        spec.dims, n_tokens=n_tokens, positions=positions, dropout=spec.dropout, scale=1.0
    )
    nn.init.normal_(embedding.E.weight, std=LOUDNESS)
    return embedding


def _convolution(spec: ConvolutionalSpec, layer: int, *, is_causal: bool) -> GatedConvolution:
    return GatedConvolution(
        spec.dims,
        kernel=spec.kernel,
        dilation=DILATIONS[spec.dilations].at(layer),
        is_causal=is_causal,
        dropout=spec.dropout,
    )


def _last(spec: ConvolutionalSpec) -> nn.Linear:
    layer = nn.Linear(spec.d_model, spec.d_model)
    # a tied output layer has rows of length 0.1 sqrt(m) instead of 1; this keeps logits as small
    length = 1.0 if spec.tied == "none" else LOUDNESS * spec.d_model**0.5
    nn.init.normal_(layer.weight, std=spec.d_model**-0.5 / length)
    nn.init.zeros_(layer.bias)
    return layer


def _output(spec: ConvolutionalSpec, target: Embedding) -> nn.Linear:
    layer = nn.Linear(spec.d_model, target.E.num_embeddings, bias=False)
    nn.init.normal_(layer.weight, std=((1 - spec.dropout) / spec.d_model) ** 0.5)
    if spec.tied != "none":
        layer.weight = target.E.weight
    return layer
