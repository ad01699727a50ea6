"""Spec of a language model: its sizes and choices, the [model] section of a recipe.

    T-D       full attention in every layer; source, separator and target in one row
    T-DMCA    attends = [ blocks of 256, memory_compressed ], 5 layers: LMLML

Paper: Liu et al. 2018 (Generating Wikipedia), section 4.2; Radford et al. 2018.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.attention.links import ChainLink
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.attention_spec import AttentionChoices
from regard.models.experts_spec import ExpertsSpec
from regard.models.language.rows import ROWS
from regard.models.self_attention import ATTENDING, FULL_CHOICE, check_attending, check_causal
from regard.models.spec import LARGEST_SIZES, ChainSpec, TransformerSpec


@dataclass(frozen=True, kw_only=True)
class LanguageSpec(ChainSpec):
    """Sizes and choices of a decoder-only model."""

    kind: str = "language_model"
    task: str = "language_modelling"
    n_layers: int = 6
    """Layers."""
    attends: tuple[Choice, ...] = (FULL_CHOICE,)
    """What each layer attends to: a pattern ("full", "sliding_window", "blocks", "big_bird", …) or
    a memory ("memory_compressed"), for the first layer, the second, … and from the start again.
    None sees the future."""
    rows: str = "separated"
    """What stands in a row of tokens: "separated" (source, end, begin, target, end), "running" (a
    text that goes on from row to row), "continued" (one that goes on and ends, as GPT-2's), or
    "begun" (the same behind a begin token)."""
    asks: str = "target"
    """Which tokens the model is asked for in training, that is, have a loss: "target", or "all" of
    a row, the source's too."""
    word_dropout: float = 0.0
    """Share of the tokens that are read as unknown in training."""
    output_dropout: float = 0.0
    """On the output layer's input."""
    norm: str = "pre_norm"
    tied: str = "output"
    """"output" (the output layer is the embedding) or "none"."""
    experts: ExpertsSpec | None = None
    """A mixture of feed-forwards instead of one."""
    max_len: int = 512
    """Longest source, and longest answer, in tokens; tables of positions hold both together."""

    # source and answer stand in one row
    largest: ClassVar[Mapping[str, int]] = {
        **LARGEST_SIZES,
        "max_len": (LARGEST_SIZES["max_len"] - 1) // 2,
    }
    shares: ClassVar[tuple[str, ...]] = (*ChainSpec.shares, "word_dropout", "output_dropout")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **ChainSpec.tables,
        "attends": ATTENDING,
        "tied": dict.fromkeys(("output", "none")),
        "rows": ROWS,
        "asks": dict.fromkeys(("target", "all")),
    }
    has_one_vocabulary: ClassVar[bool] = True
    """Whether both sides need one vocabulary; they do, as they are in one row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attending(self.attends, "model.attends")
        check_causal(self.attends, "model.attends")
        self._check_experts()

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return replace(super().dims, max_len=2 * self.max_len + 1)

    def attention(self, kind: str) -> AttentionChoices:
        """The choices for all attentions, which are of one kind."""
        return replace(super().attention(kind), attends=self.attends)

    @property
    def continues_source(self) -> bool:
        """Whether what it writes goes on with a text."""
        return ROWS[self.rows].continues_source

    @property
    def is_movable(self) -> bool:
        """Whether weights depend on distances alone, so that padding may stand before a text."""
        links: list[type[ChainLink]] = [SCORES[self.score.name], SELECTIONS[self.select.name]]
        links += [ATTENDING[choice.name] for choice in self.attends]
        if self.relation is not None:
            links.append(RELATIONS[self.relation.name])
            if self.positions.name == "rotary" and RELATIONS[self.relation.name].reads_query:
                # rotary positions have turned the query that the relation reads
                return False
        return all(link.is_movable for link in links)

    @classmethod
    def like(cls, spec: TransformerSpec) -> "LanguageSpec":
        """The language model with a Transformer's choices, and as many layers as its decoder."""
        own = spec.attention("decoder")
        chain = {each.name for each in fields(own)} - {"attends"}
        names = {each.name for each in fields(ChainSpec)} - {"kind", "task"}
        shared: dict[str, Any] = {
            name: getattr(own if name in chain else spec, name) for name in names
        }
        shared["tied"] = "none" if spec.tied == "none" else "output"
        return cls(**shared, n_layers=spec.n_decoder_layers, attends=spec.encoder_attends)

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
