"""query, key, value → context and map: score → relate → mask → select → combine.

`attend` computes the chain densely and is the reference. `Chain` fixes the links and runs them by
the fastest path. `multi_head` puts projections around a chain. The tables give links their names
in recipes and on the command line; all other code passes links as objects.
"""

from collections.abc import Callable, Mapping

from regard.attention.attend import Attended, attend
from regard.attention.caches import KeyValues
from regard.attention.chain import Chain
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.heads.multi_head import multi_head
from regard.attention.maps import AttentionMap
from regard.attention.masks import FULL, all_of, any_of, given, padding
from regard.attention.multihead_attention import MultiheadAttention
from regard.attention.tables import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS

HEADS: Mapping[str, Callable[..., GroupedQueryHeads]] = {
    "multi_head": multi_head,
    "grouped_query": GroupedQueryHeads,
}

__all__ = [
    "FULL",
    "HEADS",
    "MEMORIES",
    "PATTERNS",
    "RELATIONS",
    "SCORES",
    "SELECTIONS",
    "Attended",
    "AttentionMap",
    "Chain",
    "GroupedQueryHeads",
    "KeyValues",
    "MultiheadAttention",
    "all_of",
    "any_of",
    "attend",
    "given",
    "multi_head",
    "padding",
]
