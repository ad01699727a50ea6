"""Looking back: new positions attend to themselves and to what is remembered of those before.

    every position      the past grows with the text
    a window, blocks    keys that no later query can see are forgotten
    compressed          complete slots, and fewer positions than a slot takes

What comes out is what the whole pass would have given, whatever was forgotten.
"""

from typing import Protocol, cast, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.caches import BoundedPattern, CompressedPast, KeyValues, Past, WindowedPast
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.links import Pattern
from regard.attention.masks import FULL
from regard.errors import MeetingError
from regard.places import Places

__all__ = ["Merges", "Past", "look_back"]


@runtime_checkable
class Merges(Protocol):
    """A memory that can go on from the slots it has."""

    def start(self, new: KeyValues) -> CompressedPast:
        """Before the first of these positions is merged."""

    def merged(self, past: CompressedPast, new: KeyValues) -> CompressedPast:
        """What is remembered after more positions."""

    def seen(self, past: CompressedPast, n_queries: int) -> tuple[Pattern, Places]:
        """Who of the last queries sees which slot."""


def look_back(
    heads: GroupedQueryHeads,
    x: Float[Tensor, "b q m"],
    past: Past | None = None,
    mask: Pattern | Tensor = FULL,
) -> tuple[Attended, Past]:
    """Let every head look from new positions; heads are not yet joined.

    Args:
        heads: whose chain says what has to be remembered.
        x: the new positions.
        past: what is remembered of those before; None if there are none.
        mask: over all positions, forgotten ones too; it must be causal.
    """
    memory, pattern = heads.chain.memory, heads.chain.pattern
    if isinstance(memory, Merges):
        return _at_slots(heads, memory, x, cast(CompressedPast | None, past), mask)
    if isinstance(pattern, BoundedPattern):
        return _at_window(heads, pattern, x, cast(WindowedPast | None, past), mask)
    return heads.look_back(x, cast(KeyValues | None, past), mask)


def _at_window(
    heads: GroupedQueryHeads,
    pattern: BoundedPattern,
    x: Tensor,
    past: WindowedPast | None,
    mask: Pattern | Tensor,
) -> tuple[Attended, Past]:
    n_past = 0 if past is None else past.length
    new = heads.remember(x, x, past=n_past)
    if past is None:
        at = Places.between(x.shape[1], x.shape[1], device=x.device)
        longer = WindowedPast(new, at.key[0], new.length)
    else:
        longer = past.append(new)
        at = _places(longer, n_past)
    attended = heads.look(x, longer.kept, mask, at)
    return attended, longer.trimmed(pattern)


def _places(past: WindowedPast, n_before: int) -> Places:
    """Queries from there on against the keys that are left; gaps are told as such."""
    query = past.positions[past.positions >= n_before][:, None]
    has_all = past.n_kept == past.length
    return Places(query, past.positions[None], past.length, n_before if has_all else None)


def _at_slots(
    heads: GroupedQueryHeads,
    memory: Merges,
    x: Tensor,
    past: CompressedPast | None,
    mask: Pattern | Tensor,
) -> tuple[Attended, Past]:
    lowered = None if isinstance(mask, Tensor) else mask.as_kernel()
    if lowered is None or not lowered.is_causal or lowered.valid is not None:
        raise MeetingError(
            "looking back: compressed slots can be gone on from under a causal mask alone; padding "
            "would stand inside a slot. Let rows of unequal length go on apart."
        )
    new = heads.remember(x, x, past=0 if past is None else past.length)
    longer = memory.merged(memory.start(new) if past is None else past, new)
    slots, at = memory.seen(longer, x.shape[1])
    return heads.look(x, longer.slots, slots, at), longer
