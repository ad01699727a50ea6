"""Self-attention: the links with which a layer attends to its own sequence, by pattern or memory.

    full, causal, sliding_window, blocks, global_tokens, random_links, big_bird     visible pairs
    linformer, memory_compressed                                                    fewer keys

A layer of a language model sees no future: patterns that draw from both sides draw from the past.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from regard.attention import FULL, MEMORIES, PATTERNS
from regard.attention.link_tables import JoinedTables
from regard.attention.links import Memory, Pattern
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError

FULL_CHOICE = Choice("full")

ATTENDING: Mapping[str, type[Pattern] | type[Memory]] = JoinedTables(PATTERNS, MEMORIES)
"""The names that `model.attends` may have."""


class SelfAttentionLinks(NamedTuple):
    """The two links of a chain that decide which keys are attended to: pattern and memory."""

    pattern: Pattern
    memory: Memory | None


SEES_ALL = SelfAttentionLinks(FULL, None)
"""The links of a layer that attends to everything."""


def make_links(choice: Choice, dims: Dims, *, is_causal: bool) -> SelfAttentionLinks:
    """Make the links for one head; those of a causal layer see no future."""
    if choice.name in MEMORIES:
        return SelfAttentionLinks(FULL, choice.build(MEMORIES, dims))
    takes = inspect.signature(find(choice.name, PATTERNS)).parameters
    past = {"is_causal": True} if is_causal and "is_causal" in takes else {}
    pattern = replace(choice, settings={**choice.settings, **past}).build(PATTERNS, dims)
    return SelfAttentionLinks(pattern, None)


def needs_length(choices: Sequence[Choice]) -> bool:
    """Whether what a layer sees depends on where a text ends."""
    return any(ATTENDING[one.name].needs_length for one in choices)


def check_attending(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse an empty list."""
    if not choices:
        raise SettingError(f'{key}: expected at least one way to attend, got none. Write ["full"].')


def check_causal(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse patterns and memories that cannot hide the future."""
    for choice in choices:
        if reason := ATTENDING[choice.name].cannot_write:
            raise SettingError(f"{key}: '{choice.name}' cannot write: {reason}.")
        if choice.settings.get("is_causal") is False:
            raise SettingError(f"{key}: '{choice.name}' must not see the future; leave is_causal.")


def check_padded(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse patterns that depend on where a text ends, for texts that are padded."""
    for choice in choices:
        if ATTENDING[choice.name].needs_length:
            raise SettingError(
                f"{key}: what '{choice.name}' shows depends on where the source ends, and sources "
                "of a batch end in padding. Take full, sliding_window, blocks or a memory."
            )
