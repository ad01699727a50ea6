"""What a language model is made of, as plain data: the [model] section of a recipe.

    T-D       full attention in every layer; source, separator and target in one row
    T-DMCA    attends = [ blocks of 256, memory_compressed ], 5 layers: LMLML

Paper: Liu et al. 2018 (Generating Wikipedia), section 4.2; Radford et al. 2018.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.language.rows import ROWS
from regard.models.self_attention import FULL_CHOICE, check_attending, check_causal
from regard.models.spec import LARGEST, TransformerSpec

ASKS = ("target", "all")


@dataclass(frozen=True, kw_only=True)
class ExpertsSpec:
    """A mixture of feed-forwards among which a gate chooses for each token."""

    count: int = 16
    """Feed-forwards in a layer; each has the inner width that the one would have had."""
    used: int = 2
    """How many of them a token is sent to."""
    layers: tuple[int, ...] = ()
    """The layers that have them, counted from 1; every layer unless given."""
    balance: float = 0.01
    """What it costs, per token, that some are asked more often than others."""

    def __post_init__(self) -> None:
        if not 1 <= self.used <= self.count:
            raise SettingError(
                f"model.experts: used must lie between 1 and count ({self.count}), got {self.used}."
            )
        if not 0 <= self.balance < math.inf:
            raise SettingError(
                f"model.experts: balance must be a finite number of at least 0, got {self.balance}."
            )
        if any(layer < 1 for layer in self.layers):
            raise SettingError(f"model.experts: layers count from 1, got {min(self.layers)}.")


@dataclass(frozen=True, kw_only=True)
class LanguageSpec:
    """Sizes and choices of a decoder-only model."""

    kind: str = "language_model"
    """What is built; other kinds have keys of their own."""
    task: str = "language_modelling"
    """What the run is for: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "texts"
    """What is read."""
    d_model: int = 512
    """Width of the model."""
    n_heads: int = 8
    """Heads of every attention."""
    d_hidden: int = 2048
    """Inner width of the feed-forward."""
    n_layers: int = 6
    """Layers."""
    attends: tuple[Choice, ...] = (FULL_CHOICE,)
    """How each layer attends: patterns ("full", "sliding_window", "blocks", "big_bird", …) and
    memories ("memory_compressed"), for the first layer, the second, … and from the start again.
    None sees the future."""
    rows: str = "separated"
    """"separated": source, end, begin, target, end in one row; "running": a text that goes on;
    "continued": one that goes on and ends, as GPT-2's do."""
    asks: str = "target"
    """What is learned: "target", or "all" tokens of a row, the source's too."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.0
    """On the attention weights; it forces the dense path."""
    feed_forward_dropout: float = 0.0
    """On the inner activations."""
    word_dropout: float = 0.0
    """Share of the tokens that are read as unknown while the model learns."""
    output_dropout: float = 0.0
    """On what the output layer reads."""
    norm: str = "pre_norm"
    """Where the layer norm stands: "pre_norm" or "post_norm"."""
    feed_forward: str = "relu"
    """"relu", "gelu", "gated" (SwiGLU) or "none"."""
    layer: str = "plain"
    """"plain", or "weighted_branches": each head with a feed-forward of its own."""
    tied: str = "output"
    """"output" (the output layer is the embedding) or "none"."""
    positions: Choice = field(default_factory=lambda: Choice("sinusoidal"))
    """What is added to the embeddings, or turns queries and keys."""
    score: Choice = field(default_factory=lambda: Choice("scaled_dot"))
    """The score of every attention."""
    select: Choice = field(default_factory=lambda: Choice("soft"))
    """The selection of every attention."""
    relation: Choice | None = None
    """What distance adds."""
    experts: ExpertsSpec | None = None
    """A mixture of feed-forwards in the place of one."""
    max_len: int = 512
    """Longest source, and longest answer, in tokens; parts tied to positions hold both together."""

    def __post_init__(self) -> None:
        find(self.kind, {"language_model": None}, key="model.kind")
        if not 1 <= self.n_layers <= LARGEST["n_decoder_layers"]:
            raise SettingError(
                f"model.n_layers must lie between 1 and {LARGEST['n_decoder_layers']:,}, got "
                f"{self.n_layers}."
            )
        # source and answer stand in one row
        longest = (LARGEST["max_len"] - 1) // 2
        if not 1 <= self.max_len <= longest:
            raise SettingError(
                f"model.max_len must lie between 1 and {longest:,}, got {self.max_len:,}."
            )
        check_attending(self.attends, "model.attends")
        check_causal(self.attends, "model.attends")
        find(self.rows, ROWS, key="model.rows")
        find(self.asks, dict.fromkeys(ASKS), key="model.asks")
        find(self.tied, {"output": None, "none": None}, key="model.tied")
        for name in ("word_dropout", "output_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1), got {getattr(self, name)}.")
        _ = self.stack
        self._check_experts()

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target must be of one; here they stand in one row."""
        return True

    @property
    def stack(self) -> TransformerSpec:
        """The same choices for the parts that all models share; it checks them."""
        return TransformerSpec(
            **{name: getattr(self, name) for name in SHARED},
            max_len=2 * self.max_len + 1,
            n_encoder_layers=self.n_layers,
            n_decoder_layers=self.n_layers,
            encoder_attends=self.attends,
        )

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return self.stack.dims

    @classmethod
    def like(cls, spec: TransformerSpec) -> "LanguageSpec":
        """The language model with a Transformer's choices, and as many layers as its decoder."""
        shared: dict[str, Any] = {name: getattr(spec, name) for name in SHARED}
        shared["tied"] = "none" if spec.tied == "none" else "output"
        return cls(
            **shared,
            n_layers=spec.n_decoder_layers,
            attends=spec.encoder_attends,
            max_len=spec.max_len,
        )

    def _check_experts(self) -> None:
        if self.experts is None:
            return
        if max(self.experts.layers, default=1) > self.n_layers:
            raise SettingError(
                f"model.experts: there are {self.n_layers} layers, but layers names number "
                f"{max(self.experts.layers)}."
            )
        if self.layer != "plain":
            raise SettingError(
                f"model.experts: layers of kind '{self.layer}' have no feed-forward that experts "
                "could stand for. Take layer = 'plain', or leave the experts out."
            )
        if self.feed_forward not in ACTIVATIONS:
            raise SettingError(
                f"model.experts: an expert is no feed-forward '{self.feed_forward}'. Take "
                f"feed_forward = {' or '.join(repr(name) for name in ACTIVATIONS)}."
            )


SHARED = (
    "d_model", "n_heads", "d_hidden", "dropout", "attention_dropout", "feed_forward_dropout",
    "norm", "feed_forward", "layer", "tied", "positions", "score", "select", "relation",
)  # fmt: skip
"""Keys that mean the same for a Transformer."""

LMLML: Mapping[str, Any] = {
    "n_layers": 5,
    "attends": (Choice("blocks", {"size": 256}), Choice("memory_compressed", {"stride": 3})),
}
"""T-DMCA's stack."""
