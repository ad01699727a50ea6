"""Attending: how a layer looks at its own sequence, by the name of a pattern or of a memory.

    full, causal, sliding_window, blocks, global_tokens, random_links, big_bird     who sees whom
    linformer, memory_compressed                                                    fewer keys

A layer of a language model sees no future: patterns that draw from both sides draw from the past.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from regard.attention import FULL, MEMORIES, PATTERNS
from regard.attention.links import Memory, Pattern
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError

FULL_CHOICE = Choice("full")

ATTENDING: Mapping[str, object] = {**PATTERNS, **MEMORIES}
"""What a layer may name."""

IN_THE_PAST: Mapping[str, Mapping[str, Any]] = {
    "big_bird": {"is_causal": True},
    "random_links": {"is_causal": True},
}
"""Settings of patterns that would look ahead otherwise."""

FOR_ALL_LAYERS: Mapping[str, Mapping[str, Any]] = {"linformer": {"sharing": "layerwise"}}
"""Settings by which layers have one memory in common."""

MOVABLE = frozenset({"full", "causal", "sliding_window"})
"""What depends on the distance between two positions alone."""

PLACED = frozenset({"location", "local_predictive"})
"""Scores and selections that know a key by its place, and not by its distance."""

READS_THE_QUERY = frozenset({"shaw", "structural"})
"""Relations that meet a query, which rotary positions have turned by its place."""

COUNTS_FROM_THE_END = frozenset({"big_bird", "random_links", "global_tokens"})
"""What depends on the length of the sequence, where it is not causal."""

NOT_CAUSAL: Mapping[str, str] = {
    "linformer": "every slot mixes all positions, the future included; take memory_compressed",
    "global_tokens": "the first tokens would see the future; take big_bird, whose first block is "
    "global for those behind it",
}
"""What no layer of a language model can be, and why."""


class Attending(NamedTuple):
    """The two links of a chain that say what is looked at."""

    pattern: Pattern
    memory: Memory | None


def seeing_all() -> Attending:
    """The links of a layer that looks at everything."""
    return Attending(FULL, None)


def attending(choice: Choice, dims: Dims, *, is_causal: bool) -> Attending:
    """Make the links.

    Args:
        choice: a pattern or a memory, with its settings.
        dims: of one head.
        is_causal: whether the layer writes, and must not see the future.
    """
    if choice.name in MEMORIES:
        return Attending(FULL, choice.build(MEMORIES, dims))
    past = IN_THE_PAST.get(choice.name, {}) if is_causal else {}
    pattern = replace(choice, settings={**choice.settings, **past}).build(PATTERNS, dims)
    return Attending(pattern, None)


def attending_in_turn(choice: Choice, dims: Dims, *, is_causal: bool) -> Callable[[], Attending]:
    """What gives the links to one layer after another: made afresh, or one memory for all."""
    make = partial(attending, choice, dims, is_causal=is_causal)
    asked = FOR_ALL_LAYERS.get(choice.name)
    if asked is None or not asked.items() <= choice.settings.items():
        return make
    links = make()
    return lambda: links


def is_movable(
    choices: tuple[Choice, ...],
    *,
    score: Choice,
    select: Choice,
    positions: Choice,
    relation: Choice | None,
) -> bool:
    """Whether weights depend on distances alone, so that padding may stand before a text."""
    is_near = {choice.name for choice in choices} <= MOVABLE
    reads_turned = (
        positions.name == "rotary" and relation is not None and relation.name in READS_THE_QUERY
    )
    return is_near and not reads_turned and not {score.name, select.name} & PLACED


def check_attending(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse names that nobody knows, and an empty list."""
    if not choices:
        raise SettingError(f'{key}: expected at least one way to attend, got none. Write ["full"].')
    for choice in choices:
        find(choice.name, ATTENDING, key=key)


def check_causal(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse what cannot keep from seeing the future."""
    for choice in choices:
        if reason := NOT_CAUSAL.get(choice.name):
            raise SettingError(f"{key}: '{choice.name}' cannot write: {reason}.")
        if choice.settings.get("is_causal") is False:
            raise SettingError(f"{key}: '{choice.name}' must not see the future; leave is_causal.")
