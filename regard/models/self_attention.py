"""Self-attention: how a layer looks at its own sequence, by the name of a pattern or of a memory.

    full, causal, sliding_window, blocks, global_tokens, random_links, big_bird     who sees whom
    linformer, memory_compressed                                                    fewer keys

A layer of a language model sees no future: patterns that draw from both sides draw from the past.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from regard.attention import FULL, MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.attention.links import ChainLink, Memory, Pattern
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError

FULL_CHOICE = Choice("full")

ATTENDING: Mapping[str, type[Pattern] | type[Memory]] = {**PATTERNS, **MEMORIES}
"""What a layer may name."""


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
    takes = inspect.signature(find(choice.name, PATTERNS)).parameters
    past = {"is_causal": True} if is_causal and "is_causal" in takes else {}
    pattern = replace(choice, settings={**choice.settings, **past}).build(PATTERNS, dims)
    return Attending(pattern, None)


def attending_in_turn(choice: Choice, dims: Dims, *, is_causal: bool) -> Callable[[], Attending]:
    """What gives the links to one layer after another: made afresh, or one memory for all."""
    shared: list[Attending] = []

    def links() -> Attending:
        made = shared[0] if shared else attending(choice, dims, is_causal=is_causal)
        if made.memory is not None and made.memory.is_for_all_layers:
            shared[:] = [made]
        return made

    return links


def is_movable(
    choices: tuple[Choice, ...],
    *,
    score: Choice,
    select: Choice,
    positions: Choice,
    relation: Choice | None,
) -> bool:
    """Whether weights depend on distances alone, so that padding may stand before a text."""
    links: list[type[ChainLink]] = [SCORES[score.name], SELECTIONS[select.name]]
    links += [ATTENDING[choice.name] for choice in choices]
    if relation is not None:
        links.append(RELATIONS[relation.name])
        if positions.name == "rotary" and RELATIONS[relation.name].reads_query:
            # positions have turned the query by its place
            return False
    return all(link.is_movable for link in links)


def check_attending(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse unknown names and an empty list."""
    if not choices:
        raise SettingError(f'{key}: expected at least one way to attend, got none. Write ["full"].')
    for choice in choices:
        find(choice.name, ATTENDING, key=key)


def check_causal(choices: tuple[Choice, ...], key: str) -> None:
    """Refuse what cannot keep from seeing the future."""
    for choice in choices:
        if reason := ATTENDING[choice.name].cannot_write:
            raise SettingError(f"{key}: '{choice.name}' cannot write: {reason}.")
        if choice.settings.get("is_causal") is False:
            raise SettingError(f"{key}: '{choice.name}' must not see the future; leave is_causal.")
