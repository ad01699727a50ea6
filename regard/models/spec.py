"""Specs: sizes and choices of models, namely what all [model] sections share, and a Transformer's.

    base    6 + 6 layers, width 512, 8 heads, inner width 2048
    big     6 + 6 layers, width 1024, 16 heads, inner width 4096

Three abstract bases: `ModelSpec` for every model, `StackSpec` for models of attention layers, and
`ChainSpec` for those whose links a recipe chooses. Each kind has its own defaults.

Source embeddings, target embeddings and output layer may share one table: such an output layer
compares a state with every word's embedding.

Paper: Vaswani et al. 2017, table 3.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, cast

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers import FEED_FORWARDS, RESIDUALS
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.self_attention import ATTENDING, FULL_CHOICE, check_attending
from regard.positions import POSITIONS

LARGEST_SIZES: Mapping[str, int] = {
    "d_model": 1 << 16,
    "n_heads": 1 << 10,
    "d_hidden": 1 << 18,
    "n_layers": 1000,
    "n_encoder_layers": 1000,
    "n_decoder_layers": 1000,
    "max_len": 1 << 24,
}
"""The largest sizes; more is a mistake or a malicious file."""
LAYERS: Mapping[str, tuple[str, ...]] = {
    "plain": tuple(FEED_FORWARDS),
    "weighted_branches": tuple(ACTIVATIONS),
}
"""Kinds of layers, and the feed-forwards that each can have."""


def no_positions(dims: Dims) -> None:
    """Add no positions, for `model.positions = "none"`."""


POSITION_CHOICES: Mapping[str, Callable[..., Any]] = {**POSITIONS, "none": no_positions}
"""The names that `model.positions` may have."""

TIES = dict.fromkeys(("none", "output", "all"))
"""The names that `model.tied` may have: no shared table, target embeddings and output, or all."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """The base of every model's spec; names and limits are checked."""

    kind: str
    """The kind of model; each kind has keys of its own."""
    task: str
    """The purpose of the run: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "texts"
    """The kind of source that the model reads."""

    # defaults; a kind with a choice here makes the attribute a field
    tied = "output"

    largest: ClassVar[Mapping[str, int]] = LARGEST_SIZES
    """The limits of sizes."""
    shares: ClassVar[tuple[str, ...]] = ("dropout",)
    """Keys whose values are in [0, 1)."""
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The names that keys may have, alone or in a list, with settings or without."""

    def __post_init__(self) -> None:
        kind, names = fields(self)[0].default, [each.name for each in fields(self)]
        if self.kind != kind:
            raise SettingError(f"model.kind must be '{kind}' here, got '{self.kind}'.")
        for name in filter(self.largest.__contains__, names):
            value, largest = getattr(self, name), self.largest[name]
            if not 1 <= value <= largest:
                raise SettingError(f"model.{name} must lie between 1 and {largest:,}, got {value}.")
        for name in self.shares:
            if not 0.0 <= (value := getattr(self, name)) < 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1), got {value}.")
        for key, table in self.tables.items():
            held = getattr(self, key)
            for one in held if isinstance(held, tuple) else (held,):
                if one is not None:
                    find(one.name if isinstance(one, Choice) else one, table, key=f"model.{key}")

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target must be of one vocabulary."""
        return False

    @property
    def gives_labels(self) -> bool:
        """Whether answers are labels, which have a set of their own, and not texts."""
        return False

    @property
    def labels_words(self) -> bool:
        """Whether there is a label for each word of a text."""
        return False

    @property
    def table_apart(self) -> str | None:
        """The setting that gives source and target separate embeddings; None if they have them."""
        return "model.tied = 'output'" if self.tied == "all" else None

    def check_vocabularies(self, n_source_tokens: int, n_target_tokens: int) -> None:
        """Refuse two vocabularies where the model needs one."""
        got = f"got {n_source_tokens} source and {n_target_tokens} target tokens"
        if n_source_tokens != n_target_tokens and self.has_one_vocabulary:
            raise SettingError(
                f"{self.kind}: what is read and what is said need one vocabulary, {got}. Take "
                "tokens.is_joint = true."
            )
        if n_source_tokens != n_target_tokens and self.table_apart:
            raise SettingError(
                f"{self.kind}: source and target share a table of embeddings and need one "
                f"vocabulary, {got}. Take tokens.is_joint = true, or {self.table_apart}."
            )


@dataclass(frozen=True, kw_only=True)
class ExpertsSpec:
    """A mixture of feed-forwards among which a gate chooses for each token."""

    count: int = 16
    """Feed-forwards in a layer; each has the inner width of the single one."""
    used: int = 2
    """How many of them a token is sent to."""
    layers: tuple[int, ...] = ()
    """The layers that have them, counted from 1; every layer unless given."""
    balance: float = 0.01
    """Weight of the load-balancing loss, per token."""

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
class StackSpec(ModelSpec):
    """Sizes of a stack of attention layers."""

    d_model: int = 512
    """Width of the model."""
    n_heads: int = 8
    """Heads of every attention."""
    d_hidden: int = 2048
    """Inner width of the feed-forward."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.0
    """On the attention weights, in training; it forces the dense path there."""
    feed_forward: str = "relu"
    """The feed-forward of every layer."""
    max_len: int = 512
    """Longest sequence, for parts that have parameters for each position."""

    # choices of layers; a kind with a key makes the attribute a field
    norm = "post_norm"
    norm_eps = 1e-5
    is_centred = True
    """Whether norms take the mean away and add a bias; RMS norms do neither."""
    feed_forward_dropout = 0.0
    feed_forward_has_bias = True
    """Whether the two maps of a plain feed-forward add a bias."""
    layer = "plain"
    has_frozen_branches = False
    head_width = cast("int | None", None)
    """Width of one head; the heads share the model's width equally unless given."""
    n_groups = cast("int | None", None)
    """Heads of keys and values; as many as of queries unless given."""
    norms_heads = False
    """Whether each head norms its queries and keys."""
    has_bias = False
    """Whether the projections of heads add a bias."""
    is_scaled = True
    """Whether token vectors are multiplied by the root of the width."""
    norms_embeddings = False
    """Whether a norm follows the sum of token, position and segment."""
    n_segments = 0
    positions = Choice("sinusoidal")
    score = Choice("scaled_dot")
    select = Choice("soft")
    relation = cast("Choice | None", None)
    experts = cast("ExpertsSpec | None", None)

    shares: ClassVar[tuple[str, ...]] = (*ModelSpec.shares, "attention_dropout")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"feed_forward": ACTIVATIONS}

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.dims.d_head

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return Dims(
            d_model=self.d_model,
            n_heads=self.n_heads,
            head_width=self.head_width,
            max_len=self.max_len,
        )


@dataclass(frozen=True, kw_only=True)
class ChainSpec(StackSpec):
    """A stack whose layers and links a recipe chooses."""

    feed_forward_dropout: float = 0.0
    """On the inner activations; not in the paper."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" as printed, or "pre_norm"; "no_norm" and
    "no_residual" leave a part out, for ablations."""
    feed_forward: str = "relu"
    """"relu" as in the paper, "gelu", "gated" (SwiGLU), "gated_gelu" (GEGLU), or "none", for
    ablations."""
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
    """The relation of self-attention: what distance adds to the scores."""

    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "feed_forward_dropout")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "norm": RESIDUALS,
        "feed_forward": FEED_FORWARDS,
        "layer": LAYERS,
        "tied": TIES,
        "positions": POSITION_CHOICES,
        "score": SCORES,
        "select": SELECTIONS,
        "relation": RELATIONS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feed_forward not in (able := LAYERS[self.layer]):
            raise SettingError(
                f"model.layer = '{self.layer}' cannot hold a feed-forward '{self.feed_forward}': "
                f"take {' or '.join(able)}, or layer = 'plain'."
            )


@dataclass(frozen=True, kw_only=True)
class TransformerSpec(ChainSpec):
    """Sizes and choices; by default those of the paper's base model."""

    kind: str = "transformer"
    task: str = "translation"
    n_encoder_layers: int = 6
    """Layers that read the source; all layers of an encoder-only model."""
    n_decoder_layers: int = 6
    """Layers that write the target; all layers of a language model."""
    encoder_attends: tuple[Choice, ...] = (FULL_CHOICE,)
    """How each encoder layer attends to the source: patterns ("full", "big_bird", "sliding_window",
    …) and memories ("linformer", "memory_compressed"), for the first layer, the second, … and from
    the start again. A decoder layer sees all of its past and all of the source."""
    has_frozen_branches: bool = False
    """Whether the branches' weights, kappa and alpha, are frozen: the second phase of the
    Weighted Transformer's training."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **ChainSpec.tables,
        "encoder_attends": ATTENDING,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attending(self.encoder_attends, "model.encoder_attends")
        if self.has_frozen_branches and self.layer != "weighted_branches":
            raise SettingError(
                f"model.has_frozen_branches: layers of kind '{self.layer}' have no branches. Leave "
                "it out, or take layer = 'weighted_branches'."
            )


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
