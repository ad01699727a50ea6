"""Marian: the Transformer as the OPUS translation models have it.

    x = sqrt(m) E[token] + PE[position],   logits = decoder(…) Eᵀ + c

It differs from the paper's in biases on all projections, in swish, in a bias for each token, and in
the order of the positions' channels: all sines first, then all cosines.

Paper: Junczys-Dowmunt et al. 2018 (Marian); Tiedemann & Thottingal 2020 (OPUS-MT).
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.choices import find
from regard.dims import Dims
from regard.errors import DimsError, SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.embedding import Embedding
from regard.models.published.layers import AppendOne, Layering, tied_output
from regard.models.published.sizes import check_shares, check_sizes
from regard.models.transformer import Transformer, check_masks
from regard.places import Tree
from regard.positions.sinusoidal import frequencies


@dataclass(frozen=True, kw_only=True)
class MarianSpec:
    """Sizes and switches; everything has the value of the OPUS models."""

    kind: str = "marian"
    """What is built."""
    task: str = "translation"
    """What the run is for: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "texts"
    """What is read."""
    d_model: int = 512
    """Width of the model."""
    n_heads: int = 8
    """Heads of every attention."""
    d_hidden: int = 2048
    """Inner width of the feed-forward."""
    n_encoder_layers: int = 6
    """Layers that read the source."""
    n_decoder_layers: int = 6
    """Layers that write the target."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.0
    """On the attention weights."""
    feed_forward: str = "swish"
    """"swish", "gelu", "gelu_tanh" or "relu"."""
    is_scaled: bool = True
    """Whether token vectors are multiplied by the root of the width."""
    is_shared: bool = True
    """Whether source, target and output have one table; else target and output have one."""
    max_len: int = 512
    """Longest source and longest target."""

    def __post_init__(self) -> None:
        sizes = ("d_model", "n_heads", "d_hidden", "n_encoder_layers", "n_decoder_layers")
        check_sizes(self, (*sizes, "max_len"))
        check_shares(self, ("dropout", "attention_dropout"))
        find(self.kind, {"marian": None}, key="model.kind")
        find(self.feed_forward, ACTIVATIONS, key="model.feed_forward")
        _ = self.dims.d_head

    @property
    def table_apart(self) -> str | None:
        """What would give source and target a table of embeddings each; None if they have."""
        return "model.is_shared = false" if self.is_shared else None

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return Dims(d_model=self.d_model, n_heads=self.n_heads, max_len=self.max_len)


@final
class SinesThenCosines(nn.Module):
    """Sinusoidal positions whose channels are all sines and then all cosines."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        if dims.d_model % 2:
            raise DimsError(f"marian: d_model must be even (sine and cosine), got {dims.d_model}.")
        self.width = dims.d_model

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """The sine of every wave, then the cosine of every wave."""
        angles = positions.unsqueeze(-1) * frequencies(self.width, positions.device)
        return torch.cat([angles.sin(), angles.cos()], -1)


def build_marian(spec: MarianSpec, *, n_source_tokens: int, n_target_tokens: int) -> Transformer:
    """Make the encoder-decoder, and see that its masks hide what they should."""
    if spec.is_shared and n_source_tokens != n_target_tokens:
        raise SettingError(
            f"model.is_shared needs one vocabulary for both sides, got {n_source_tokens} source "
            f"and {n_target_tokens} target tokens. Set is_shared = false."
        )
    layering = Layering(
        dims=spec.dims,
        d_hidden=spec.d_hidden,
        activation=spec.feed_forward,
        norm="post_norm",
        norm_eps=1e-5,
        dropout=spec.dropout,
        attention_dropout=spec.attention_dropout,
    )
    target = _embedding(spec, n_target_tokens, has_output_bias=True)
    source = target if spec.is_shared else _embedding(spec, n_source_tokens)
    model = Transformer(
        source=source,
        target=target,
        encoder=[layering.encoder_layer() for _ in range(spec.n_encoder_layers)],
        decoder=[layering.decoder_layer() for _ in range(spec.n_decoder_layers)],
        encoder_norm=nn.Identity(),
        decoder_norm=AppendOne(),
        output=tied_output(target.E),
    )
    if target.E.weight.device.type != "meta":
        check_masks(model, min(n_source_tokens, n_target_tokens))
    return model


def _embedding(spec: MarianSpec, n_tokens: int, *, has_output_bias: bool = False) -> Embedding:
    return Embedding(
        spec.dims,
        n_tokens=n_tokens,
        positions=SinesThenCosines(spec.dims),
        dropout=spec.dropout,
        scale=None if spec.is_scaled else 1.0,
        has_output_bias=has_output_bias,
    )
