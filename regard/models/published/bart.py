"""BART: an encoder-decoder whose two sides have one table of words, but positions of their own.

    x = LN(E[token] + P[position]),   logits = decoder(…) Eᵀ + c

              norm         norm of embeddings    positions       token vectors
    BART      post_norm    yes                   learned         as they are
    mBART     pre_norm     yes                   learned         scaled
    M2M100    pre_norm     no                    sines, fixed    scaled

Paper: Lewis et al. 2020 (BART); Liu et al. 2020 (mBART); Fan et al. 2020 (M2M100).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.choices import Choice
from regard.dims import Dims
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.mask_checks import check_masks
from regard.models.parts import AppendOne, Parts, tied_output
from regard.models.spec import StackSpec
from regard.models.transformer import Transformer
from regard.places import Tree
from regard.positions import LearnedPositions
from regard.positions.sinusoidal import BASE


@final
class OffsetSines(nn.Module):
    """Fixed positions: all sines, then all cosines, counted from 2, and rounded as published.

    PE[p] = [sin((p + 2) w), cos((p + 2) w)],   w[i] = 10000^(-i / (m/2 - 1))
    """

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.width = dims.d_model

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """The sine of every wave, then the cosine of every wave."""
        half = self.width // 2
        steps = torch.arange(half, device=positions.device).float()
        angles = (positions + 2).float().unsqueeze(-1) * (
            steps * -(math.log(BASE) / max(1, half - 1))
        ).exp()
        waves = torch.cat([angles.sin(), angles.cos()], -1)
        return nn.functional.pad(waves, (0, self.width % 2))


BART_POSITIONS: Mapping[str, Callable[[Dims], nn.Module]] = {
    "learned": LearnedPositions,
    "offset_sines": OffsetSines,
}
"""The names that `model.positions` may have."""


@dataclass(frozen=True, kw_only=True)
class BartSpec(StackSpec):
    """Sizes and switches; by default those of the smallest published model."""

    kind: str = "bart"
    task: str = "translation"
    d_model: int = 768
    n_heads: int = 12
    d_hidden: int = 3072
    n_encoder_layers: int = 6
    """Layers that read the source."""
    n_decoder_layers: int = 6
    """Layers that write the target."""
    feed_forward: str = "gelu"
    """"gelu", "gelu_tanh", "relu" or "swish"."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" or "pre_norm"."""
    norms_embeddings: bool = True
    """Whether a norm follows the sum of token and position."""
    is_scaled: bool = False
    """Whether token vectors are multiplied by the root of the width."""
    is_shared: bool = True
    """Whether source, target and output have one table; else target and output have one."""
    positions: Choice = field(default_factory=lambda: Choice("learned"))
    """What is added to the embeddings: "learned", or "offset_sines"."""
    max_len: int = 1024
    """Longest source, and longest target, in tokens."""

    has_bias = True
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "feed_forward": ACTIVATIONS,
        "norm": dict.fromkeys(("post_norm", "pre_norm")),
        "positions": BART_POSITIONS,
    }

    @property
    def table_apart(self) -> str | None:
        """The setting that gives source and target separate embeddings; None if they have them."""
        return "model.is_shared = false" if self.is_shared else None


def build_bart(spec: BartSpec, *, n_source_tokens: int, n_target_tokens: int) -> Transformer:
    """Make the encoder-decoder, and check that its masks hide what they should."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    source, target = (
        parts.embedding(
            count,
            positions=spec.positions.build(BART_POSITIONS, spec.dims),
            has_output_bias=has_output_bias,
        )
        for count, has_output_bias in (
            (n_source_tokens, spec.is_shared),
            (n_target_tokens, True),
        )
    )
    if spec.is_shared:
        source.E = target.E
    model = Transformer(
        source=source,
        target=target,
        encoder=parts.encoder_layers(spec.n_encoder_layers),
        decoder=parts.decoder_layers(spec.n_decoder_layers),
        encoder_norm=parts.last_norm(),
        decoder_norm=nn.Sequential(parts.last_norm(), AppendOne()),
        output=tied_output(target.E),
    )
    check_masks(model, min(n_source_tokens, n_target_tokens))
    return model
