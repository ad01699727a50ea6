"""spec → convolutional model, with the paper's first weights.

    before a gate     N(0, 4 p / n_in)       p: how likely an input is kept by the dropout
    other products    N(0, p / n_in)         n_in: how many inputs a sum has
    embeddings        N(0, 0.1²)             biases 0

So that layers keep the variance, and a dot product of wide vectors begins well below saturation.

Paper: Gehring et al. 2017, section 3.5.
"""

from collections.abc import Callable, Mapping
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import SCORES, SELECTIONS, Chain
from regard.dims import Dims
from regard.layers.convolution import GatedConvolution
from regard.models.convolutional.layer import AttendingConvolution
from regard.models.convolutional.network import Convolutional
from regard.models.convolutional.spec import DILATIONS, ConvolutionalSpec
from regard.models.embedding import Embedding
from regard.models.mask_checks import check_future, check_padding
from regard.models.ties import check_sides
from regard.places import Tree
from regard.positions import LearnedPositions, SinusoidalPositions

LOUDNESS = 0.1
"""Standard deviation of the first embeddings, words and positions alike."""


def build_convolutional(
    spec: ConvolutionalSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Convolutional:
    """Make the encoder-decoder, and see that the future and the padding are hidden."""
    check_sides(spec.tied, n_source_tokens, n_target_tokens)
    target = _embedding(spec, n_target_tokens)
    model = Convolutional(
        source=target if spec.tied == "all" else _embedding(spec, n_source_tokens),
        target=target,
        encoder=[
            _convolution(spec, layer, is_causal=False) for layer in range(spec.n_encoder_layers)
        ],
        decoder=[
            AttendingConvolution(
                spec.dims,
                convolution=_convolution(spec, layer, is_causal=True),
                chain=_chain(spec),
            )
            for layer in range(spec.n_decoder_layers)
        ],
        last=_last(spec),
        output=_output(spec, target),
        dropout=spec.dropout,
    )
    if next(model.parameters()).device.type != "meta":
        n_tokens = min(n_source_tokens, n_target_tokens)
        some = torch.arange(n_tokens, device=next(model.parameters()).device)[-3:].expand(2, -1)
        check_future(model, lambda tokens: model.hidden(some, tokens), n_tokens)
        check_padding(model, lambda tokens: model.hidden(tokens, tokens), n_tokens)
    return model


@final
class FaintPositions(nn.Module):
    """Positions of unit size, made as faint as the words' first embeddings."""

    def __init__(self, positions: nn.Module) -> None:
        super().__init__()
        self.positions = positions

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """The same codes, fainter."""
        return LOUDNESS * self.positions(positions, tree)


def _learned(dims: Dims) -> nn.Module:
    positions = LearnedPositions(dims)
    nn.init.normal_(positions.P.weight, std=LOUDNESS)
    return positions


def _sinusoidal(dims: Dims) -> nn.Module:
    return FaintPositions(SinusoidalPositions(dims))


def _none(dims: Dims) -> None:
    return None


PLACING: Mapping[str, Callable[[Dims], nn.Module | None]] = {
    "learned": _learned,
    "sinusoidal": _sinusoidal,
    "none": _none,
}
"""Positions that can be added to embeddings, as loud as these."""


def _embedding(spec: ConvolutionalSpec, n_tokens: int) -> Embedding:
    positions = spec.positions.build(PLACING, spec.dims)
    embedding = Embedding(spec.dims, n_tokens=n_tokens, positions=positions, dropout=spec.dropout)
    embedding.scale = 1.0
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


def _chain(spec: ConvolutionalSpec) -> Chain:
    return Chain(
        spec.score.build(SCORES, spec.dims), select=spec.select.build(SELECTIONS, spec.dims)
    )


def _last(spec: ConvolutionalSpec) -> nn.Linear:
    layer = nn.Linear(spec.d_model, spec.d_model)
    # a tied output layer has rows of length 0.1 sqrt(m) and not of 1, and should say no more
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
