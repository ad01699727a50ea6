"""Given links: a chain's links as a caller gives them, by name or as objects, each checked.

name       Chain(select="sparsemax")
settings   multi_head(dims, relation="shaw:clip=16")     the heads know the sizes it needs
object     Chain(AdditiveScore(dims.head()))
"""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from regard.attention.link_tables import LinkTable
from regard.attention.links import Memory, Pattern, Relation, Score, Selection
from regard.attention.tables import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError


class LinkKind(NamedTuple):
    """What stands at one place of a chain."""

    noun: str
    protocol: Any
    table: LinkTable
    needs: str
    """The method that each of them has to write itself."""


KINDS: Mapping[str, LinkKind] = {
    "score": LinkKind("score", Score, SCORES, "forward"),
    "relation": LinkKind("relation", Relation, RELATIONS, "to_scores"),
    "pattern": LinkKind("pattern", Pattern, PATTERNS, "visible"),
    "select": LinkKind("selection", Selection, SELECTIONS, "weigh"),
    "memory": LinkKind("memory", Memory, MEMORIES, "shorten"),
}
"""The kinds of links, each under the keyword that it is given by."""


def given_link(who: str, keyword: str, given: object, dims: Dims | None = None) -> Any:
    """The link that a caller means; anything else is refused, with the right place or spelling."""
    kind = KINDS[keyword]
    if isinstance(given, str):
        return _named(who, keyword, given, dims)
    if inspect.isclass(given):
        raise SettingError(
            f"{who}: {keyword} must be a {kind.noun}, got the class {given.__name__}. Make one: "
            f"{keyword}={given.__name__}(dims)."
        )
    # a look at the bases is quicker than a protocol's own check of every member
    if kind.protocol in type(given).__mro__ or isinstance(given, kind.protocol):
        _check_is_whole(who, keyword, given)
        return given
    what = f"{who}: {keyword} must be a {kind.noun}, got {_described(given)}"
    for place, other in KINDS.items():
        if isinstance(given, other.protocol):
            raise SettingError(f"{what}, which is a {other.noun}. Write {place}=.")
    if lacking := _lacking(kind, given):
        raise SettingError(
            f"{what}, which lacks {', '.join(lacking[-3:])} and more. Inherit regard.parts."
            f"{kind.protocol.__name__}, which has defaults for most of it."
        )
    raise SettingError(f"{what}. Give one, or its name: {', '.join(kind.table)}.")


def _check_is_whole(who: str, keyword: str, given: object) -> None:
    """Refuse a link of the caller's own class that lacks what its kind is for."""
    kind, own = KINDS[keyword], type(given)
    if not _lacks(own, kind):
        return
    is_score = kind.protocol is Score
    base = ", in a class that inherits nn.Module before Score" * is_score
    raise SettingError(
        f"{who}: {keyword}: {own.__name__} has no {kind.needs}, so it is no {kind.noun} yet. Write "
        f"def {kind.needs}(self, …) as regard.parts.{kind.protocol.__name__} says{base}."
    )


def _lacks(own: Any, kind: LinkKind) -> bool:
    """Whether a class leaves to its kind what only the class can do."""
    if kind.protocol is Score:
        forward = getattr(own, "forward", None)
        return own.__call__ is Score.__call__ or forward is nn.Module.forward
    if kind.protocol is Relation and own.as_bias is not Relation.as_bias:
        return False
    inherited: bool = getattr(own, kind.needs) is getattr(kind.protocol, kind.needs)
    return inherited


def place_of(given: object) -> str | None:
    """The keyword that a link, or the name of one, is given by."""
    name = Choice.parse(given).name if isinstance(given, str) else None
    for keyword, kind in KINDS.items():
        if name in kind.table or (name is None and isinstance(given, kind.protocol)):
            return keyword
    return None


def _named(who: str, keyword: str, text: str, dims: Dims | None) -> Any:
    kind, choice = KINDS[keyword], Choice.parse(text)
    for place, other in KINDS.items():
        if choice.name in other.table and choice.name not in kind.table:
            raise SettingError(
                f"{who}: {keyword} must be a {kind.noun}, got '{choice.name}', which is a "
                f'{other.noun}. Write {place}="{text}".'
            )
    part = find(choice.name, kind.table, key=f"{who}: {keyword}")
    parameter = inspect.signature(part).parameters.get("dims")
    if dims is not None:
        return choice.build(kind.table, dims)
    if parameter is not None and parameter.default is inspect.Parameter.empty:
        raise SettingError(
            f'{who}: {keyword}="{text}" needs sizes, which a chain does not know. Write '
            f'multi_head(dims, {keyword}="{text}"), or give the link itself: '
            f"{keyword}={part.__name__}(dims)."
        )
    # its sizes are read by no part that has none to read
    return choice.build(kind.table, Dims(d_model=1))


def _described(given: object) -> str:
    return "None" if given is None else f"an object of {type(given).__name__}"


def _lacking(kind: LinkKind, given: object) -> list[str]:
    """What a link of the caller's own class lacks, if it has some of what its kind has."""
    wanted = [name for name in dir(kind.protocol) if not name.startswith("_")]
    if not callable(given) and not any(hasattr(given, name) for name in wanted):
        return []
    return [name for name in wanted if not hasattr(given, name)]
