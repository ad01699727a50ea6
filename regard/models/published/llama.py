"""Llama, Qwen2 and Qwen3: one stack under a causal mask, whose heads share keys and values.

    x = E[token],   q, k = R(p) W_Q x, R(p) W_K x,   logits[t] = RMS(layers(x)[t]) Oᵀ

              projections of heads            before they are turned
    Llama     without biases                  as they are
    Qwen2     with biases but the last        as they are
    Qwen3     without biases                  queries and keys normed in each head

Paper: Touvron et al. 2023 (Llama); Yang et al. 2024 and 2025 (Qwen2, Qwen3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import nn

from regard.choices import Choice
from regard.dims import Dims
from regard.layers import FEED_FORWARDS
from regard.models.language.rows import ROWS
from regard.models.language_model import LanguageModel
from regard.models.mask_checks import check_future
from regard.models.parts import AppendOne, Parts, own_output, tied_output
from regard.models.spec import POSITION_CHOICES, StackSpec


@dataclass(frozen=True, kw_only=True)
class LlamaSpec(StackSpec):
    """Sizes and switches; by default those of a small published model."""

    kind: str = "llama"
    task: str = "language_modelling"
    d_model: int = 2048
    n_heads: int = 32
    d_hidden: int = 8192
    n_groups: int | None = None
    """Heads of keys and values; as many as of queries unless given."""
    head_width: int | None = None
    """Width of one head; the heads share the model's width equally unless given."""
    n_layers: int = 16
    """Layers."""
    dropout: float = 0.0
    """On embeddings and on every sublayer's output, before it is added."""
    feed_forward: str = "gated"
    """"gated" (SwiGLU), or "gated_gelu"."""
    norm_eps: float = 1e-5
    """The eps of norms, added to the mean square."""
    has_bias: bool = False
    """Whether the projections of heads add a bias."""
    norms_heads: bool = False
    """Whether each head norms its queries and keys."""
    is_tied: bool = True
    """Whether the output layer is the table of words."""
    rows: str = "begun"
    """"begun": a begin token stands before every text; "continued": only where there is none."""
    positions: Choice = field(default_factory=lambda: Choice("rotary"))
    """What turns queries and keys: "rotary", with its base and its scaling."""
    max_len: int = 2048
    """Longest prompt, and longest continuation, in tokens."""

    norm, is_centred, is_scaled = "pre_norm", False, False
    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "norm_eps")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "feed_forward": {name: FEED_FORWARDS[name] for name in ("gated", "gated_gelu")},
        "rows": {name: ROWS[name] for name in ("begun", "continued")},
        "positions": {"rotary": POSITION_CHOICES["rotary"]},
    }
    has_one_vocabulary: ClassVar[bool] = True
    """Whether both sides need one vocabulary; they do, as they are one text."""

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return replace(super().dims, max_len=2 * self.max_len + 1)


def build_llama(spec: LlamaSpec, *, n_source_tokens: int, n_target_tokens: int) -> LanguageModel:
    """Make the model; prompt and continuation have one vocabulary."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    embedding = parts.embedding(n_target_tokens, has_output_bias=spec.is_tied)
    model = LanguageModel(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_layers),
        norm=nn.Sequential(parts.last_norm(), AppendOne()),
        output=tied_output(embedding.E) if spec.is_tied else own_output(spec, n_target_tokens),
        rows=ROWS[spec.rows],
    )
    check_future(model, model.read, n_target_tokens)
    return model
