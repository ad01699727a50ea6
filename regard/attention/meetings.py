"""Which links may meet in one chain. What is not refused here is allowed, and tested in pairs.

The table is data: names on both sides and the reason, which the error repeats.
"""

from typing import NamedTuple

from regard.errors import MeetingError


class Refusal(NamedTuple):
    """Links on the left never meet links on the right."""

    left: frozenset[str]
    right: frozenset[str]
    reason: str


_RELATIONS = frozenset({"shaw", "structural", "bucketed", "linear_bias"})
_SPARSE = frozenset({"sliding_window", "blocks", "global_tokens", "random_links", "big_bird"})
_LOCAL = frozenset({"local_monotonic", "local_predictive"})
_NO_DOT = frozenset({"concat", "additive", "location"})

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        frozenset({"shaw", "structural"}),
        _NO_DOT | {"dot", "general"},
        "its vectors are added to the keys of a scaled dot product and share its 1/sqrt(d); "
        "take scaled_dot",
    ),
    Refusal(
        frozenset({"linformer", "memory_compressed"}),
        _RELATIONS,
        "a slot mixes many positions, so that no distance to it is defined; leave the relation out",
    ),
    Refusal(
        frozenset({"linformer", "memory_compressed"}),
        _LOCAL,
        "a slot has no position in the sentence for a window to look at; take soft",
    ),
    Refusal(
        frozenset({"linformer", "memory_compressed"}),
        frozenset({"location"}),
        "location scores word positions, and slots have none; take scaled_dot",
    ),
    Refusal(
        frozenset({"linformer", "memory_compressed"}),
        _SPARSE,
        "a slot mixes positions that the pattern would tell apart; take full",
    ),
    Refusal(
        frozenset({"linformer"}),
        frozenset({"causal"}),
        "every slot mixes all positions, the future included; take memory_compressed",
    ),
    Refusal(
        frozenset({"rotary"}),
        _NO_DOT | {"general"},
        "only a dot product of rotated vectors depends on their distance alone; take scaled_dot",
    ),
)


def why_not(one: str, other: str) -> str | None:
    """The reason two links may not meet, or None if they may."""
    for left, right, reason in REFUSALS:
        if (one in left and other in right) or (other in left and one in right):
            return reason
    return None


def check(names: list[str]) -> None:
    """Refuse a chain in which two links may not meet."""
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if reason := why_not(one, other):
                raise MeetingError(f"chain: {one} and {other} cannot meet: {reason}.")
