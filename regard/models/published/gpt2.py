"""GPT-2: one stack under a causal mask goes on writing a text that somebody began.

    x = E[token] + P[position],   logits[t] = LN(layers(x)[t]) Eᵀ + c

Nothing stands between what was begun and what is written: our begin token, with which every search
starts, is read as the last token of the prompt. Where there is no prompt it is the token that parts
two documents, as in the training of the model. c is 0, and very low for pieces that only we have.

Paper: Radford et al. 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.choices import find
from regard.dims import Dims
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.embedding import Embedding
from regard.models.language.rows import ROWS
from regard.models.language_model import LanguageModel
from regard.models.mask_checks import check_future
from regard.models.published.layers import AppendOne, Layering, tied_output
from regard.models.published.sizes import check_one_vocabulary, check_shares, check_sizes
from regard.positions import LearnedPositions


@dataclass(frozen=True, kw_only=True)
class Gpt2Spec:
    """Sizes and switches; everything has the value of the smallest published model."""

    kind: str = "gpt2"
    """What is built."""
    task: str = "language_modelling"
    """What the run is for: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "texts"
    """What is read."""
    d_model: int = 768
    """Width of the model."""
    n_heads: int = 12
    """Heads of every attention."""
    d_hidden: int = 3072
    """Inner width of the feed-forward."""
    n_layers: int = 12
    """Layers."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.1
    """On the attention weights, in training."""
    feed_forward: str = "gelu_tanh"
    """"gelu_tanh", "gelu", "relu" or "swish"."""
    norm_eps: float = 1e-5
    """What is added to a variance before its root is taken."""
    max_len: int = 512
    """Longest prompt, and longest continuation: there are positions for both together."""

    def __post_init__(self) -> None:
        check_sizes(self, ("d_model", "n_heads", "d_hidden", "n_layers", "max_len"))
        check_shares(self, ("dropout", "attention_dropout", "norm_eps"))
        find(self.kind, {"gpt2": None}, key="model.kind")
        find(self.feed_forward, ACTIVATIONS, key="model.feed_forward")
        _ = self.dims.d_head

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return Dims(d_model=self.d_model, n_heads=self.n_heads, max_len=2 * self.max_len)

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target must be of one; here they are one text."""
        return True


def build_gpt2(spec: Gpt2Spec, *, n_source_tokens: int, n_target_tokens: int) -> LanguageModel:
    """Make the model; prompt and continuation have one vocabulary."""
    check_one_vocabulary(spec.kind, n_source_tokens, n_target_tokens)
    layering = Layering(
        dims=spec.dims,
        d_hidden=spec.d_hidden,
        activation=spec.feed_forward,
        norm="pre_norm",
        norm_eps=spec.norm_eps,
        dropout=spec.dropout,
        attention_dropout=spec.attention_dropout,
    )
    embedding = Embedding(
        spec.dims,
        n_tokens=n_target_tokens,
        positions=LearnedPositions(spec.dims),
        dropout=spec.dropout,
        scale=1.0,
        has_output_bias=True,
    )
    model = LanguageModel(
        embedding=embedding,
        layers=[layering.encoder_layer() for _ in range(spec.n_layers)],
        norm=nn.Sequential(layering.last_norm(), AppendOne()),
        output=tied_output(embedding.E),
        rows=ROWS["continued"],
    )
    if embedding.E.weight.device.type != "meta":
        check_future(model, model.read, n_target_tokens)
    return model
