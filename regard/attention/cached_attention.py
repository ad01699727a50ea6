"""Cached attention: new positions attend to themselves and to the cache of earlier ones.

    every position      the cache grows with the text
    a window, blocks    keys that no later query can see are dropped
    compressed          complete slots, and fewer positions than a slot takes

The result equals that of a pass over the whole text, although keys are dropped.
"""

from typing import Protocol, cast, runtime_checkable

from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.caches import BoundedPattern, CompressedPast, KeyValues, Past, WindowedPast
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.links import AnyMask, Pattern
from regard.attention.masks import FULL
from regard.attention.shapes import Queries
from regard.errors import MeetingError
from regard.places import Places


@runtime_checkable
class Merges(Protocol):
    """A memory that can extend the slots of a cache."""

    def remember(
        self, past: CompressedPast | None, new: KeyValues
    ) -> tuple[CompressedPast, Pattern, Places]:
        """The cache after more positions, the mask of slots that they see, and all places."""


def attend_with_cache(
    heads: GroupedQueryHeads, x: Queries, past: Past | None = None, mask: AnyMask = FULL
) -> tuple[Attended, Past]:
    """Attend with every head from new positions `x`, without joining the heads.

    `past` is the cache of earlier positions, of the class that the chain needs. The mask is over
    all positions, dropped ones too, and must be causal.
    """
    memory, pattern = heads.chain.memory, heads.chain.pattern
    if isinstance(memory, Merges):
        return _at_slots(heads, memory, x, cast(CompressedPast | None, past), mask)
    if not isinstance(pattern, BoundedPattern):
        return heads.attend_with_cache(x, cast(KeyValues | None, past), mask)
    n_past = 0 if past is None else past.length
    new = heads.remember(x, x, past=n_past)
    if past is None:
        places = Places.between(x.shape[1], x.shape[1], device=x.device)
        longer = WindowedPast(new, places.key[0], new.length)
    else:
        longer = cast(WindowedPast, past).append(new)
        at = longer.positions
        # None where dropped positions leave gaps
        before = n_past if longer.n_kept == longer.length else None
        places = Places(at[at >= n_past][:, None], at[None], longer.length, before)
    return heads.attend_to_memory(x, longer.kept, mask, places), longer.trimmed(pattern)


def _at_slots(
    heads: GroupedQueryHeads, memory: Merges, x: Tensor, past: CompressedPast | None, mask: AnyMask
) -> tuple[Attended, Past]:
    lowered = None if isinstance(mask, Tensor) else mask.as_kernel()
    if lowered is None or not lowered.is_causal or lowered.valid is not None:
        raise MeetingError(
            "cached attention: compressed slots can be gone on from under a causal mask alone; "
            "padding would stand inside a slot. Let rows of unequal length go on apart."
        )
    new = heads.remember(x, x, past=0 if past is None else past.length)
    longer, slots, at = memory.remember(past, new)
    return heads.attend_to_memory(x, longer.slots, slots, at), longer
