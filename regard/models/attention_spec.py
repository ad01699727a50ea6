"""Attention specs: what a recipe says of the attentions of one kind, and what it leaves to all.

    [model]            score = "dot"                 every attention's
    [model.decoder]    relation = "linear_bias"      that of the decoder's self-attention alone

The kinds are "encoder" and "decoder", of self-attention, and "cross", from decoder to encoder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.attention.link_tables import JoinedTables
from regard.attention.links import NO_RELATION, Relation
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError, check_least
from regard.models.self_attention import ATTENDING, check_attending

ATTENTION_KINDS = ("encoder", "decoder", "cross")
"""The kinds of attention of a model that reads a source and writes a target."""


def no_relation(dims: Dims) -> Relation:
    """Distance adds nothing, for `relation = "none"`."""
    return NO_RELATION


RELATION_CHOICES: Mapping[str, Callable[..., Relation]] = JoinedTables(
    RELATIONS, {"none": no_relation}
)
"""The names that the relation of one kind of attention may have."""


@dataclass(frozen=True, kw_only=True)
class AttentionChoices:
    """All choices for the attentions of one kind."""

    score: Choice
    relation: Choice | None
    shares_relation: bool
    select: Choice
    attends: tuple[Choice, ...]
    n_heads: int
    n_groups: int


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """The chain and the heads of one kind of attention; what is not given is the model's."""

    score: Choice | None = None
    """The score."""
    relation: Choice | None = None
    """What distance adds to the scores; "none" leaves the model's relation out."""
    shares_relation: bool | None = None
    """Whether all layers have one relation, with one table."""
    select: Choice | None = None
    """The selection."""
    attends: tuple[Choice, ...] | None = None
    """The pattern or the memory of each layer: "full", "sliding_window", "memory_compressed", …,
    for the first layer, the second, … and from the start again."""
    n_heads: int | None = None
    """Heads."""
    n_groups: int | None = None
    """Heads of keys and values, which groups of heads share; they divide n_heads."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "score": SCORES,
        "relation": RELATION_CHOICES,
        "select": SELECTIONS,
        "attends": ATTENDING,
    }

    def __post_init__(self) -> None:
        if self.attends is not None:
            check_attending(self.attends, "attends")
        for key, table in self.tables.items():
            held = getattr(self, key)
            for one in held if isinstance(held, tuple) else (held,):
                if one is not None:
                    find(one.name, table, key=key)
        for name in ("n_heads", "n_groups"):
            if (count := getattr(self, name)) is not None:
                check_least(name, count, 1)

    def or_else(self, whole: AttentionChoices) -> AttentionChoices:
        """The choices of this kind, which are the model's where it has none of its own."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.n_heads is not None and self.n_groups is None:
            # the model's groups are those of the model's heads
            own["n_groups"] = self.n_heads
        return replace(whole, **{name: held for name, held in own.items() if held is not None})


def check_groups(key: str, n_groups: int, n_heads: int) -> None:
    """Refuse heads of keys and values that cannot be shared equally."""
    if n_groups < 1 or n_heads % n_groups:
        raise SettingError(
            f"{key} ({n_groups}) must divide the {n_heads} heads, which share keys and values in "
            "groups; 1 is multi-query. Take a divisor, or leave it out."
        )
