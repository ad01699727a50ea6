"""GPT-2: one stack under a causal mask, which continues a text.

    x = E[token] + P[position],   logits[t] = LN(layers(x)[t]) Eᵀ + c

No token separates the prompt from the answer: the begin token, with which every search starts, is
replaced by the prompt's last token. Without a prompt it is the token that separates documents, as
in the model's training. c is 0, and very low for the pieces that only this package adds.

Paper: Radford et al. 2019.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from regard.choices import Choice
from regard.dims import Dims
from regard.models.language.rows import ROWS
from regard.models.language_model import LanguageModel
from regard.models.mask_checks import check_future
from regard.models.parts import AppendOne, Parts, tied_output
from regard.models.spec import StackSpec


@dataclass(frozen=True, kw_only=True)
class Gpt2Spec(StackSpec):
    """Sizes and switches; by default those of the smallest published model."""

    kind: str = "gpt2"
    task: str = "language_modelling"
    d_model: int = 768
    n_heads: int = 12
    d_hidden: int = 3072
    n_layers: int = 12
    """Layers."""
    attention_dropout: float = 0.1
    feed_forward: str = "gelu_tanh"
    """"gelu_tanh", "gelu", "relu" or "swish"."""
    norm_eps: float = 1e-5
    """The eps of layer norms, added to the variance."""
    max_len: int = 512
    """Longest prompt, and longest continuation: there are positions for both together."""

    norm, has_bias, is_scaled, positions = "pre_norm", True, False, Choice("learned")
    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "norm_eps")
    has_one_vocabulary: ClassVar[bool] = True
    """Whether both sides need one vocabulary; they do, as they are one text."""

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return replace(super().dims, max_len=2 * self.max_len)


def build_gpt2(spec: Gpt2Spec, *, n_source_tokens: int, n_target_tokens: int) -> LanguageModel:
    """Make the model; prompt and continuation have one vocabulary."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    embedding = parts.embedding(n_target_tokens, has_output_bias=True)
    model = LanguageModel(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_layers),
        norm=nn.Sequential(parts.last_norm(), AppendOne()),
        output=tied_output(embedding.E),
        rows=ROWS["continued"],
    )
    check_future(model, model.read, n_target_tokens)
    return model
