"""The tables: every link by its name, in teaching order. Only the project's edges read them."""

from collections.abc import Mapping
from typing import Any

from regard.attention.links import Memory, Pattern, Relation, Score, Selection
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
from regard.positions import POSITIONS

SCORES: Mapping[str, type[Score]] = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "general": GeneralScore,
    "concat": ConcatScore,
    "additive": AdditiveScore,
    "location": LocationScore,
}

RELATIONS: Mapping[str, type[Relation]] = {
    "shaw": ShawRelation,
    "structural": StructuralRelation,
    "bucketed": BucketedRelation,
    "linear_bias": LinearBiasRelation,
}

PATTERNS: Mapping[str, type[Pattern]] = {
    "full": FullPattern,
    "causal": CausalPattern,
    "sliding_window": SlidingWindowPattern,
    "blocks": BlocksPattern,
    "global_tokens": GlobalTokensPattern,
    "random_links": RandomLinksPattern,
    "big_bird": BigBirdPattern,
}

SELECTIONS: Mapping[str, type[Selection]] = {
    "soft": SoftSelection,
    "hard": HardSelection,
    "local_monotonic": LocalMonotonicSelection,
    "local_predictive": LocalPredictiveSelection,
    "sparsemax": SparsemaxSelection,
    "top_k": TopKSelection,
}

MEMORIES: Mapping[str, type[Memory]] = {
    "linformer": LinformerMemory,
    "memory_compressed": MemoryCompressedMemory,
}


def name_of(link: Any) -> str:
    """The name under which a link stands in its table; a stranger's is its class name."""
    for table in (SCORES, RELATIONS, PATTERNS, SELECTIONS, MEMORIES, POSITIONS):
        for name, part in table.items():
            if type(link) is part:
                return name
    return type(link).__name__
