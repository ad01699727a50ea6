"""What a Transformer is made of, as plain data: the [model] section of a recipe.

    base    6 + 6 layers, width 512, 8 heads, inner width 2048
    big     6 + 6 layers, width 1024, 16 heads, inner width 4096

Paper: Vaswani et al. 2017, table 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers import FEED_FORWARDS, RESIDUALS
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.self_attention import FULL_CHOICE, check_attending
from regard.models.ties import check_is_tie, table_apart
from regard.positions import POSITIONS

LARGEST: Mapping[str, int] = {
    "d_model": 1 << 16,
    "n_heads": 1 << 10,
    "d_hidden": 1 << 18,
    "n_encoder_layers": 1000,
    "n_decoder_layers": 1000,
    "max_len": 1 << 24,
}
"""Beyond these a size is a mistake, or a file that means harm."""
LAYERS: Mapping[str, tuple[str, ...]] = {
    "plain": tuple(FEED_FORWARDS),
    "weighted_branches": tuple(ACTIVATIONS),
}
"""Kinds of layers, and the feed-forwards that each can hold."""


@dataclass(frozen=True, kw_only=True)
class TransformerSpec:
    """Sizes and choices; everything has the paper's base value."""

    kind: str = "transformer"
    """What is built; other kinds have keys of their own."""
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
    """Layers that read the source; all layers of an encoder-only model."""
    n_decoder_layers: int = 6
    """Layers that write the target; all layers of a language model."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.0
    """On the attention weights; not in the paper, and it forces the dense path."""
    feed_forward_dropout: float = 0.0
    """On the inner activations; not in the paper."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" as printed, or "pre_norm"; "no_norm" and
    "no_residual" leave a part out, to see what it is for."""
    feed_forward: str = "relu"
    """"relu" as in the paper, "gelu", "gated" (SwiGLU), or "none", to see what it is for."""
    layer: str = "plain"
    """"plain", or "weighted_branches": each head with a feed-forward of its own."""
    tied: str = "all"
    """"none", "output" (target embedding = output layer) or "all" (the source's too)."""
    positions: Choice = field(default_factory=lambda: Choice("sinusoidal"))
    """What is added to the embeddings, or turns queries and keys."""
    score: Choice = field(default_factory=lambda: Choice("scaled_dot"))
    """The score of every attention."""
    select: Choice = field(default_factory=lambda: Choice("soft"))
    """The selection of every attention."""
    relation: Choice | None = None
    """What distance adds in self-attention."""
    encoder_attends: tuple[Choice, ...] = (FULL_CHOICE,)
    """How each encoder layer looks at the source: patterns ("full", "big_bird", "sliding_window",
    …) and memories ("linformer", "memory_compressed"), for the first layer, the second, … and from
    the start again. A decoder layer sees all of its past and all of the source."""
    has_frozen_branches: bool = False
    """Whether the branches' weights, kappa and alpha, learn no more: the second phase of the
    Weighted Transformer's training."""
    max_len: int = 512
    """Longest sequence for parts that are tied to positions."""

    def __post_init__(self) -> None:
        counts = ("d_model", "n_heads", "d_hidden", "n_encoder_layers", "n_decoder_layers")
        for name in (*counts, "max_len"):
            if not 1 <= getattr(self, name) <= LARGEST[name]:
                raise SettingError(
                    f"model.{name} must lie between 1 and {LARGEST[name]:,}, "
                    f"got {getattr(self, name)}."
                )
        for name in ("dropout", "attention_dropout", "feed_forward_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1), got {getattr(self, name)}.")
        find(self.kind, {"transformer": None}, key="model.kind")
        find(self.norm, RESIDUALS, key="model.norm")
        find(self.feed_forward, FEED_FORWARDS, key="model.feed_forward")
        if self.feed_forward not in (able := find(self.layer, LAYERS, key="model.layer")):
            raise SettingError(
                f"model.layer = '{self.layer}' cannot hold a feed-forward '{self.feed_forward}': "
                f"take {' or '.join(able)}, or layer = 'plain'."
            )
        check_attending(self.encoder_attends, "model.encoder_attends")
        if self.has_frozen_branches and self.layer != "weighted_branches":
            raise SettingError(
                f"model.has_frozen_branches: layers of kind '{self.layer}' have no branches. Leave "
                "it out, or take layer = 'weighted_branches'."
            )
        check_is_tie(self.tied)
        find(self.positions.name, {**POSITIONS, "none": None}, key="model.positions")
        find(self.score.name, SCORES, key="model.score")
        find(self.select.name, SELECTIONS, key="model.select")
        if self.relation is not None:
            find(self.relation.name, RELATIONS, key="model.relation")
        _ = self.dims.d_head

    @property
    def table_apart(self) -> str | None:
        """What would give source and target a table of embeddings each; None if they have."""
        return table_apart(self.tied)

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return Dims(d_model=self.d_model, n_heads=self.n_heads, max_len=self.max_len)


SIZES: Mapping[str, Mapping[str, int | float]] = {
    "tiny": {"d_model": 64, "n_heads": 4, "d_hidden": 128, "n_encoder_layers": 2,
             "n_decoder_layers": 2},
    "small": {"d_model": 256, "n_heads": 4, "d_hidden": 1024, "n_encoder_layers": 3,
              "n_decoder_layers": 3},
    "base": {"d_model": 512, "n_heads": 8, "d_hidden": 2048, "n_encoder_layers": 6,
             "n_decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "n_heads": 16, "d_hidden": 4096, "n_encoder_layers": 6,
            "n_decoder_layers": 6, "dropout": 0.3},
}  # fmt: skip
"""Named sizes: what `model.size` in a recipe stands for."""
