"""Specs: sizes and choices of models, namely what all [model] sections share, and a Transformer's.

    base    6 + 6 layers, width 512, 8 heads, inner width 2048
    big     6 + 6 layers, width 1024, 16 heads, inner width 4096

Three abstract bases: `ModelSpec` for every model, `StackSpec` for models of attention layers, and
`ChainSpec` for those whose links a recipe chooses. Each kind has its own defaults.

Source embeddings, target embeddings and output layer may share one table: such an output layer
compares a state with every word's embedding.

Paper: Vaswani et al. 2017, table 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, cast

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers import FEED_FORWARDS, RESIDUALS
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.attention_spec import (
    ATTENTION_KINDS,
    AttentionChoices,
    AttentionSpec,
    check_groups,
)
from regard.models.experts_spec import ExpertsSpec
from regard.models.hard_spec import HardSpec, draws_of
from regard.models.self_attention import (
    ATTENDING,
    FULL_CHOICE,
    check_attending,
    check_causal,
    check_padded,
    needs_length,
)
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
    encoder = cast("AttentionSpec | None", None)
    decoder = cast("AttentionSpec | None", None)
    cross = cast("AttentionSpec | None", None)
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
    shares_relation = False
    """Whether all layers of a stack have one relation."""
    hard = cast("HardSpec | None", None)
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

    def attention(self, kind: str) -> AttentionChoices:
        """The choices for the attentions of a kind; cross-attention has no relation by itself."""
        whole = AttentionChoices(
            score=self.score,
            relation=None if kind == "cross" else self.relation,
            shares_relation=self.shares_relation,
            select=self.select,
            attends=(FULL_CHOICE,),
            n_heads=self.n_heads,
            n_groups=self.n_groups or self.n_heads,
        )
        own: AttentionSpec | None = getattr(self, kind)
        return whole if own is None else own.or_else(whole)

    @property
    def draws(self) -> HardSpec | None:
        """How its draws learn; None if no attention draws."""
        return draws_of(self.hard, (self.attention(kind).select for kind in ATTENTION_KINDS))

    def dims_of(self, kind: str) -> Dims:
        """The sizes of the attentions of a kind."""
        return replace(self.dims, n_heads=self.attention(kind).n_heads)


@dataclass(frozen=True, kw_only=True)
class ChainSpec(StackSpec):
    """A stack whose layers and links a recipe chooses."""

    n_groups: int | None = None
    """Heads of keys and values, which groups of heads share (grouped_query): they divide n_heads,
    and 1 is multi-query; as many as n_heads unless given."""
    feed_forward_dropout: float = 0.0
    """On the inner activations; not in the paper."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" as printed, or "pre_norm"; "no_norm" and
    "no_residual" leave a part out, for ablations."""
    is_centred: bool = True
    """Whether norms take the mean away and add a bias; false for RMS norms, as in T5 and Llama."""
    norm_eps: float = 1e-5
    """The eps of norms, added to the variance."""
    feed_forward: str = "relu"
    """"relu" as in the paper, "gelu", "gated" (SwiGLU), "gated_gelu" (GEGLU), or "none", for
    ablations."""
    feed_forward_has_bias: bool = True
    """Whether the two maps of a plain feed-forward add a bias; the gated one has none."""
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
    shares_relation: bool = False
    """Whether all layers of a stack have one relation, with one table, as in T5."""
    hard: HardSpec | None = None
    """How attention with select = "hard" learns; its defaults unless given."""

    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "feed_forward_dropout", "norm_eps")
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
        if self.n_groups is not None:
            check_groups("model.n_groups", self.n_groups, self.n_heads)
        if not self.feed_forward_has_bias and self.layer != "plain":
            raise SettingError(
                f"model.feed_forward_has_bias: branches of layer = '{self.layer}' have biases. "
                "Leave it out, or take layer = 'plain'."
            )
        _ = self.draws  # refuses settings without effect
        related = [self.attention(kind).relation for kind in ATTENTION_KINDS]
        if self.shares_relation and not any(related):
            raise SettingError(
                "model.shares_relation: there is no relation that the layers could share. Give "
                "model.relation, or leave it out."
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
    encoder: AttentionSpec | None = None
    """The encoder's self-attention, where it differs: [model.encoder] has a chain and heads of its
    own, such as relation = "bucketed"."""
    decoder: AttentionSpec | None = None
    """The decoder's self-attention, where it differs; its patterns and memories see no future."""
    cross: AttentionSpec | None = None
    """The attention from decoder to encoder, where it differs; it has a relation only if one is
    given here, and then the distance is that of the positions in both texts."""
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
        self._check_kinds()
        if self.has_frozen_branches and self.layer != "weighted_branches":
            raise SettingError(
                f"model.has_frozen_branches: layers of kind '{self.layer}' have no branches. Leave "
                "it out, or take layer = 'weighted_branches'."
            )

    def attention(self, kind: str) -> AttentionChoices:
        """The choices for the attentions of a kind."""
        found = super().attention(kind)
        if kind == "encoder" and (self.encoder is None or self.encoder.attends is None):
            return replace(found, attends=self.encoder_attends)
        return found

    def _check_kinds(self) -> None:
        """Refuse what one kind of attention cannot have."""
        own = {kind: held for kind in ATTENTION_KINDS if (held := getattr(self, kind)) is not None}
        for kind, held in own.items():
            found = self.attention(kind)
            _ = self.dims_of(kind).d_head
            check_groups(f"model.{kind}.n_groups", found.n_groups, found.n_heads)
            if held.shares_relation and found.relation is None:
                raise SettingError(
                    f"model.{kind}.shares_relation: there is no relation that the layers could "
                    f"share. Give model.{kind}.relation, or leave it out."
                )
        is_twice = self.encoder is not None and self.encoder.attends is not None
        if is_twice and self.encoder_attends != (FULL_CHOICE,):
            raise SettingError(
                "model.encoder.attends and model.encoder_attends are two names of one setting. "
                "Take one of them out of the recipe."
            )
        reading = self.attention("encoder")
        if reading.select.name == "hard" and needs_length(reading.attends):
            raise SettingError(
                "model.select = 'hard' learns from whole batches, but what the encoder's pattern "
                "shows depends on where a source ends. Take other patterns, or "
                "model.encoder.select = 'soft'."
            )
        check_causal(self.attention("decoder").attends, "model.decoder.attends")
        check_padded(self.attention("cross").attends, "model.cross.attends")


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
