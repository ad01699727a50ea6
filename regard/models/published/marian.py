"""Marian: the Transformer as the OPUS translation models have it.

    x = sqrt(m) E[token] + PE[position],   logits = decoder(…) Eᵀ + c

It differs from the paper's in biases on all projections, in swish, in a bias for each token, and in
the order of the positions' channels: all sines first, then all cosines.

Paper: Junczys-Dowmunt et al. 2018 (Marian); Tiedemann & Thottingal 2020 (OPUS-MT).
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.models.mask_checks import check_masks
from regard.models.parts import AppendOne, Parts, tied_output
from regard.models.spec import StackSpec
from regard.models.transformer import Transformer
from regard.places import Tree
from regard.positions import SinusoidalPositions


@dataclass(frozen=True, kw_only=True)
class MarianSpec(StackSpec):
    """Sizes and switches; by default those of the OPUS models."""

    kind: str = "marian"
    task: str = "translation"
    n_encoder_layers: int = 6
    """Layers that read the source."""
    n_decoder_layers: int = 6
    """Layers that write the target."""
    feed_forward: str = "swish"
    """"swish", "gelu", "gelu_tanh" or "relu"."""
    is_scaled: bool = True
    """Whether token vectors are multiplied by the root of the width."""
    is_shared: bool = True
    """Whether source, target and output have one table; else target and output have one."""

    has_bias = True

    @property
    def table_apart(self) -> str | None:
        """The setting that gives source and target separate embeddings; None if they have them."""
        return "model.is_shared = false" if self.is_shared else None


@final
class SinesThenCosines(nn.Module):
    """Sinusoidal positions whose channels are all sines and then all cosines."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.waves = SinusoidalPositions(dims)

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """The sine of every wave, then the cosine of every wave."""
        return self.waves(positions).unflatten(-1, (-1, 2)).mT.flatten(-2)


def build_marian(spec: MarianSpec, *, n_source_tokens: int, n_target_tokens: int) -> Transformer:
    """Make the encoder-decoder, and check that its masks hide what they should."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts, positions = Parts(spec), SinesThenCosines(spec.dims)
    target = parts.embedding(n_target_tokens, positions=positions, has_output_bias=True)
    source = target
    if not spec.is_shared:
        source = parts.embedding(n_source_tokens, positions=positions)
    model = Transformer(
        source=source,
        target=target,
        encoder=parts.encoder_layers(spec.n_encoder_layers),
        decoder=parts.decoder_layers(spec.n_decoder_layers),
        encoder_norm=nn.Identity(),
        decoder_norm=AppendOne(),
        output=tied_output(target.E),
    )
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model
