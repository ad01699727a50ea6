"""The tables: every link by its name, in teaching order. Only the project's edges read them.

Links that cannot stand in one chain are in no table: each link declares them.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

from regard.attention.link_tables import LinkTable
from regard.attention.links import Memory, Pattern, Relation, Score, Selection
from regard.attention.masks import is_full
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.full import FullPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.relations.structural import StructuralRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.errors import MeetingError
from regard.positions import POSITIONS

SCORES = LinkTable(
    Score,
    {
        "dot": DotScore,
        "scaled_dot": ScaledDotScore,
        "general": GeneralScore,
        "concat": ConcatScore,
        "additive": AdditiveScore,
        "location": LocationScore,
    },
)

RELATIONS = LinkTable(
    Relation,
    {
        "shaw": ShawRelation,
        "structural": StructuralRelation,
        "bucketed": BucketedRelation,
        "linear_bias": LinearBiasRelation,
    },
)

PATTERNS = LinkTable(
    Pattern,
    {
        "full": FullPattern,
        "causal": CausalPattern,
        "sliding_window": SlidingWindowPattern,
        "blocks": BlocksPattern,
        "global_tokens": GlobalTokensPattern,
        "random_links": RandomLinksPattern,
        "big_bird": BigBirdPattern,
    },
)

SELECTIONS = LinkTable(
    Selection,
    {
        "soft": SoftSelection,
        "hard": HardSelection,
        "local_monotonic": LocalMonotonicSelection,
        "local_predictive": LocalPredictiveSelection,
        "sparsemax": SparsemaxSelection,
        "top_k": TopKSelection,
    },
)

MEMORIES = LinkTable(
    Memory,
    {
        "linformer": LinformerMemory,
        "memory_compressed": MemoryCompressedMemory,
    },
)


def name_of(link: Any) -> str:
    """The name under which a link stands in its table; else its own name, or its class's."""
    for table in (SCORES, RELATIONS, PATTERNS, SELECTIONS, MEMORIES, POSITIONS):
        for name, part in table.items():
            if type(link) is part:
                return name
    return str(getattr(link, "own_name", type(link).__name__))


def text_of(link: Any) -> str:
    """A link on one line: its name and settings, as `Choice.parse` reads them, else its class's."""
    name, settings = name_of(link), link.extra_repr()
    if name == type(link).__name__:
        return f"{name}({settings})"
    return f"{name}:{settings.replace(', ', ',')}" if settings else name


def chain_text(
    score: Score,
    relation: Relation,
    pattern: Pattern,
    select: Selection,
    memory: Memory | None = None,
) -> str:
    """A chain's links on one line, each behind its keyword; those that do nothing are left out."""
    links = {
        "score": score,
        "relation": None if relation.is_zero else relation,
        "pattern": None if is_full(pattern) else pattern,
        "select": select,
        "memory": memory,
    }
    return ", ".join(f"{key}={text_of(link)}" for key, link in links.items() if link is not None)


@runtime_checkable
class Meets(Protocol):
    """A link, or positions that turn queries and keys."""

    def cannot_meet(self, other: object) -> str | None:
        """The reason why another may not stand in one chain with it, with an alternative."""


def why_not(one: Meets, other: Meets) -> str | None:
    """The reason two links may not meet, or None if they may."""
    return one.cannot_meet(other) or other.cannot_meet(one)


def check_meetings(links: Iterable[Meets]) -> None:
    """Refuse a chain in which two links may not meet."""
    for one, other in combinations(links, 2):
        if reason := why_not(one, other):
            raise MeetingError(f"chain: {name_of(one)} and {name_of(other)} cannot meet: {reason}.")
