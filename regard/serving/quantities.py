"""What may be shown of an attention: its weights, or numbers that follow from them.

    weights    a[i,j], at a temperature T: the selection of scores / T
    arriving   a[i,j] · |v[j] W_O|: the length of what is weighed, times its weight
    rollout    N_L … N_1: what is left of each input after all layers
    flow       the most that fits from an output down to an input
    answer     what each output takes from each word of the source, through decoder and encoder

Each says in words what it is, and whether its layers and heads have become one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Bool, Float
from torch import Tensor

from regard.choices import find, unknown
from regard.errors import SettingError, UnknownChoice
from regard.inspecting.record import Record, Valued, Weights
from regard.inspecting.rollout import LONGEST
from regard.serving.seen_keys import Span, reached_keys, seen_keys, spans, unknown_keys
from regard.serving.shown_numbers import (
    Wish,
    arriving,
    flows,
    from_source,
    map_of,
    rolled_out,
    weights,
)

NO_WORDS = "its keys are no words of the text"
MOST_FLOW = 24
"""Places for which all flows are sought at once; a second or so each layer."""


@final
@dataclass(frozen=True)
class Quantity:
    """One thing that may be shown."""

    title: str
    unit: str
    """What a number of it is."""
    text: str
    """What it says and what it does not."""
    suits: Callable[[Record, str], bool]
    """Whether there is such a thing for this kind of attention."""
    why_not: Callable[[Record, str], str]
    """What is missing; nothing where it can be shown."""
    numbers: Callable[[Record, str, Wish], Float[Tensor, "layers heads q k"]]
    visible: Callable[[Record, str], "Sequence[Bool[Tensor, 'q k'] | None]"]
    """Where a number may stand, for each layer; None where nobody knows."""
    settings: tuple[str, ...] = ()
    """What of a wish it heeds."""
    is_joined: bool = False
    """Whether all layers and heads have become one."""
    is_share: bool = True
    """Whether the numbers of a row are shares of one whole."""

    def as_json(self, record: Record, kind: str) -> dict[str, object]:
        """What the page has to know."""
        return {
            "title": self.title,
            "unit": self.unit,
            "text": self.text,
            "settings": list(self.settings),
            "is_joined": self.is_joined,
            "is_share": self.is_share,
            "why_not": self.why_not(record, kind),
        }


def offered(record: Record, kind: str) -> dict[str, dict[str, object]]:
    """What there is of one kind of attention, by name; `why_not` is empty where it can be shown."""
    find(kind, record.attention)
    return {
        name: quantity.as_json(record, kind)
        for name, quantity in QUANTITIES.items()
        if quantity.suits(record, kind)
    }


def numbers_of(
    record: Record, kind: str, shown: str, wish: Wish
) -> Float[Tensor, "layers heads q k"]:
    """The numbers of one quantity.

    Args:
        record: what was looked at.
        kind: such as "encoder" or "cross".
        shown: a name of `QUANTITIES`.
        wish: temperature and residual, for those that heed them.
    """
    return _fitting(record, kind, shown).numbers(record, kind, wish)


def spans_of(record: Record, kind: str, shown: str) -> list[list[list[Span]] | None]:
    """For each layer and query, the spans of keys that it may see; None where nobody knows."""
    layers = _fitting(record, kind, shown).visible(record, kind)
    return [None if seen is None else [spans(row) for row in seen.tolist()] for seen in layers]


def _fitting(record: Record, kind: str, shown: str) -> Quantity:
    told = offered(record, kind)
    able = [name for name, one in told.items() if not one["why_not"]]
    if shown in able:
        return QUANTITIES[shown]
    if shown not in QUANTITIES:
        raise UnknownChoice(unknown(shown, able or QUANTITIES))
    said = f"{kind} attention has no {shown}"
    if shown in told:
        one = told[shown]
        said = f"{one['title']} of {kind} attention cannot be shown: {one['why_not']}"
    raise SettingError(f"weights: {said}. {_instead(record, able)}")


def _instead(record: Record, able: Sequence[str]) -> str:
    """What to take where something cannot be shown; all of it can."""
    if able:
        return f"Take {'one of ' if len(able) > 1 else ''}{', '.join(able)}."
    kinds = [kind for kind in record.attention if not _unlike(record, kind)]
    return f"Take another attention: {', '.join(kinds) or 'that of another run'}."


def _unlike(record: Record, kind: str) -> str:
    layers = record.attention[kind].layers
    makes = {(tuple(layer.shape[-3:]), _is_of_words(layer)) for layer in layers}
    return "its layers do not look at the same keys" if len(makes) > 1 else ""


def _is_of_words(layer: Weights) -> bool:
    seen = map_of(layer)
    return seen is None or seen.columns == "keys"


def _no_values(record: Record, kind: str) -> str:
    if unlike := _unlike(record, kind):
        return unlike
    for layer in record.attention[kind].layers:
        seen = map_of(layer)
        has_norms = seen is not None and (seen.value is not None or seen.norms is not None)
        if not (isinstance(layer, Valued) and (seen is None or has_norms)):
            return "the values were not kept"
    return ""


def _too_long(most: int) -> Callable[[Record, str], str]:
    def why_not(record: Record, kind: str) -> str:
        one = record.attention[kind]
        places = max(len(one.queries), len(one.keys))
        if not _is_followed(record, kind):
            return NO_WORDS
        return f"{places:,} places; at most {most:,} here" if places > most else ""

    return why_not


def _no_way_down(record: Record, kind: str) -> str:
    own, cross = record.attention.get("decoder"), record.attention[kind]
    if own is None or len(own.layers) != len(cross.layers):
        return "this decoder does not attend to what it wrote in every layer"
    passed = [each for each in ("encoder", "decoder") if each in record.attention]
    is_followed = all(_is_followed(record, each) for each in passed)
    is_of_words = all(_is_of_words(layer) for layer in cross.layers)
    is_one_text = len(cross.keys) == len(record.attention.get("encoder", cross).keys)
    if not (is_followed and is_of_words and is_one_text):
        return NO_WORDS
    longest = max(len(record.attention[each].keys) for each in (*passed, kind))
    return f"{longest:,} places; at most {LONGEST:,} here" if longest > LONGEST else ""


def _is_followed(record: Record, kind: str) -> bool:
    """Whether each layer leads from the places of a text to the same places."""
    one = record.attention[kind]
    is_square = all(layer.shape[-1] == layer.shape[-2] for layer in one.layers)
    return one.is_self and is_square and all(_is_of_words(layer) for layer in one.layers)


def _any(record: Record, kind: str) -> bool:
    return True


def _is_self(record: Record, kind: str) -> bool:
    return record.attention[kind].is_self


def _is_cross(record: Record, kind: str) -> bool:
    # a shortened memory is no other text
    return kind == "cross"


FOLLOWED = (
    "Weights are taken for all there is between two layers, averaged over heads; what the "
    "feed-forward parts do is not in them."
)
QUANTITIES: Mapping[str, Quantity] = {
    "weights": Quantity(
        "weights",
        "weight",
        "How much each query looks at each key. A weight says where was read, not how much of it "
        "arrived.",
        _any,
        _unlike,
        weights,
        seen_keys,
        settings=("temperature",),
    ),
    "arriving": Quantity(
        "weights × lengths of values",
        "length",
        "A weight times the length of the value that it weighs, after the output projection: how "
        "much arrives (Kobayashi et al. 2020). Rows do not sum to 1; lengths of a word's pieces "
        "are added as if they pointed the same way.",
        _any,
        _no_values,
        arriving,
        seen_keys,
        settings=("temperature",),
        is_share=False,
    ),
    "rollout": Quantity(
        "rollout through all layers",
        "share",
        "How much of each input is left in each output after all layers of this kind (Abnar & "
        f"Zuidema 2020). {FOLLOWED}",
        _is_self,
        _too_long(LONGEST),
        rolled_out,
        reached_keys,
        settings=("residual",),
        is_joined=True,
    ),
    "flow": Quantity(
        "flow through all layers",
        "flow",
        "The most that fits from each output down to each input if weights were the widths of "
        f"pipes (Abnar & Zuidema 2020). Rows do not sum to 1. {FOLLOWED}",
        _is_self,
        _too_long(MOST_FLOW),
        flows,
        reached_keys,
        settings=("residual",),
        is_joined=True,
        is_share=False,
    ),
    "answer": Quantity(
        "rollout down to the source",
        "share",
        "How much of each output comes from each word of the source, through all layers of "
        "decoder and encoder. A row sums to less than 1: the rest comes from what was written "
        f"before. {FOLLOWED}",
        _is_cross,
        _no_way_down,
        from_source,
        unknown_keys,
        settings=("residual",),
        is_joined=True,
        is_share=False,
    ),
}
