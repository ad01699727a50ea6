"""Quantities of an attention that can be shown: its weights, and numbers computed from them.

    weights    a[i,j], at a temperature T: the selection of scores / T
    arriving   a[i,j] · |v[j] W_O|: the length of what is weighed, times its weight
    rollout    N_L … N_1: the share of each input after all layers
    flow       the maximum flow from an output down to an input
    answer     what each output takes from each word of the source, through decoder and encoder

Each has a description, and states whether it joins all layers and heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.choices import find, unknown
from regard.errors import SettingError, UnknownChoice
from regard.inspecting.lazy_map import LazyMap, map_of
from regard.inspecting.record import Record, Valued, Weights
from regard.inspecting.rollout import MAX_PLACES, answer_rollout, flow, rollout
from regard.inspecting.tiles import ByHead

ALL = slice(None)
NO_WORDS = "its keys are no words of the text"
MAX_FLOW_PLACES = 24
"""The most places for which all flows are computed at once; each layer takes about a second."""

Span = list[int]
"""The first key of a span, and the one after its last."""
Numbers = Float[Tensor, "layers heads q k"]
Visible = Sequence["Bool[Tensor, 'q k'] | None"]
"""Where a number may stand, for each layer; None where it is not known."""


@final
@dataclass(frozen=True)
class QuantitySettings:
    """The settings of a request; each quantity uses one of the two."""

    temperature: float = 1.0
    residual: float = 0.5

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise SettingError(
                f"weights: the temperature must be above 0, got {self.temperature}. Take 1 for "
                "the model's own."
            )


@final
@dataclass(frozen=True)
class Quantity:
    """One quantity that can be shown."""

    title: str
    unit: str
    """The unit of its numbers."""
    text: str
    """What it tells the reader, and what it does not."""
    why_not: Callable[[Record, str], str | None]
    """The reason why it cannot be shown; empty if it can, None if a kind has no such quantity."""
    numbers: Callable[[Record, str, QuantitySettings], Numbers]
    visible: Callable[[Record, str], Visible]
    is_joined: bool = False
    """Whether it joins all layers and heads; such a quantity uses `residual`."""
    is_share: bool = True
    """Whether the numbers of a row are shares of one whole."""


def offered(record: Record, kind: str) -> dict[str, dict[str, object]]:
    """The quantities of one kind of attention, by name; `why_not` is empty if one can be shown."""
    find(kind, record.attention)
    return {
        name: {
            "title": one.title,
            "unit": one.unit,
            "text": one.text,
            "settings": ["residual" if one.is_joined else "temperature"],
            "is_joined": one.is_joined,
            "is_share": one.is_share,
            "why_not": reason,
        }
        for name, one in QUANTITIES.items()
        if (reason := one.why_not(record, kind)) is not None
    }


def numbers_of(record: Record, kind: str, name: str, settings: QuantitySettings) -> Numbers:
    """The numbers of the quantity of this name."""
    return _quantity(record, kind, name).numbers(record, kind, settings)


def spans_of(record: Record, kind: str, name: str) -> list[list[list[Span]] | None]:
    """For each layer and query, the spans of keys that it may see; None where it is not known."""
    layers = _quantity(record, kind, name).visible(record, kind)
    return [None if seen is None else [spans(row) for row in seen.tolist()] for seen in layers]


def spans(row: Sequence[bool]) -> list[Span]:
    """The runs of True in a row.

    >>> spans([True, True, False, True])
    [[0, 2], [3, 4]]
    """
    edges = [i for i, (a, b) in enumerate(zip([False, *row], [*row, False], strict=True)) if a != b]
    return [[first, behind] for first, behind in zip(edges[::2], edges[1::2], strict=True)]


def _quantity(record: Record, kind: str, name: str) -> Quantity:
    """The quantity of this name, if it can be shown of this kind."""
    there = offered(record, kind)
    able = [each for each, facts in there.items() if not facts["why_not"]]
    if name in able:
        return QUANTITIES[name]
    if name not in QUANTITIES:
        raise UnknownChoice(unknown(name, able or QUANTITIES))
    reason = f"{kind} attention has no {name}"
    if one := there.get(name):
        reason = f"{one['title']} of {kind} attention cannot be shown: {one['why_not']}"
    kinds = [each for each in record.attention if not _no_weights(record, each)]
    instead = f"another attention: {', '.join(kinds) or 'that of another run'}"
    if able:
        instead = f"{'one of ' if len(able) > 1 else ''}{', '.join(able)}"
    raise SettingError(f"weights: {reason}. Take {instead}.")


def _no_weights(record: Record, kind: str) -> str:
    layers = record.attention[kind].layers
    makes = {(tuple(layer.shape[-3:]), _is_of_words(layer)) for layer in layers}
    return "its layers do not look at the same keys" if len(makes) > 1 else ""


def _no_values(record: Record, kind: str) -> str:
    if reason := _no_weights(record, kind):
        return reason
    for layer in record.attention[kind].layers:
        seen = map_of(layer)
        has_norms = seen is None or seen.value is not None or seen.norms is not None
        if not (isinstance(layer, Valued) and has_norms):
            return "the values were not kept"
    return ""


def _no_rollout(record: Record, kind: str, most: int = MAX_PLACES) -> str | None:
    one = record.attention[kind]
    if not one.is_self:
        return None
    if not _is_followed(record, kind):
        return NO_WORDS
    return _too_long(max(len(one.queries), len(one.keys)), most)


def _no_answer(record: Record, kind: str) -> str | None:
    # only cross-attention reads another text; a shortened memory is not one
    if kind != "cross":
        return None
    own, cross = record.attention.get("decoder"), record.attention[kind]
    if own is None or len(own.layers) != len(cross.layers):
        return "this decoder does not attend to what it wrote in every layer"
    passed = [each for each in ("encoder", "decoder") if each in record.attention]
    is_followed = all(_is_followed(record, each) for each in passed)
    is_of_words = all(_is_of_words(layer) for layer in cross.layers)
    is_one_text = len(cross.keys) == len(record.attention.get("encoder", cross).keys)
    if not (is_followed and is_of_words and is_one_text):
        return NO_WORDS
    return _too_long(max(len(record.attention[each].keys) for each in (*passed, kind)), MAX_PLACES)


def _too_long(places: int, most: int) -> str:
    return f"{places:,} places; at most {most:,} here" if places > most else ""


def _is_followed(record: Record, kind: str) -> bool:
    """Whether queries and keys of each layer are the same places of a text."""
    one = record.attention[kind]
    is_square = all(layer.shape[-1] == layer.shape[-2] for layer in one.layers)
    return one.is_self and is_square and all(_is_of_words(layer) for layer in one.layers)


def _is_of_words(layer: Weights) -> bool:
    seen = map_of(layer)
    return seen is None or seen.columns == "keys"


def _weights(record: Record, kind: str, settings: QuantitySettings) -> Numbers:
    layers = record.attention[kind].layers
    return torch.stack([_tempered(layer, settings.temperature) for layer in layers])


def _tempered(layer: Weights, temperature: float) -> Float[Tensor, "h q k"]:
    """The weights that scores divided by a temperature would have."""
    if temperature == 1:
        return layer.tile(ALL, ALL)[0].float().cpu()
    seen = map_of(layer)
    if seen is None:
        raise SettingError(
            "weights: this record holds weights alone; a temperature needs the scores. Look at the "
            "text again, or take temperature 1."
        )
    with torch.inference_mode():
        precision = seen.precision or seen.query.dtype
        query, key = seen.query.to(precision), seen.key.to(precision)
        visible = seen.mask.visible(seen.places)
        scores = seen.score(query, key, seen.places) + seen.relation.to_scores(query, seen.places)
        rows = seen.select.summarise(scores / temperature, visible, query, seen.places)
        weights = seen.select.weigh(scores / temperature, visible, rows, seen.places)
    return weights[layer.example if isinstance(layer, LazyMap) else 0].float().cpu()


def _arriving(record: Record, kind: str, settings: QuantitySettings) -> Numbers:
    one = record.attention[kind]
    places = [(layer, head) for layer in range(len(one.layers)) for head in range(one.n_heads)]
    norms = torch.stack([record.value_norms(kind, *place) for place in places])
    weights = _weights(record, kind, settings)
    return weights * norms.view(*weights.shape[:2], 1, -1)


def _flow(record: Record, kind: str, settings: QuantitySettings) -> Numbers:
    queries = range(len(record.attention[kind].queries))
    found = [flow(record, kind, query, residual=settings.residual) for query in queries]
    return torch.stack(found)[None, None]


def _seen(record: Record, kind: str) -> Visible:
    """The pairs that the mask of each layer leaves open, in any head."""
    return [
        layer.may_hold(ALL, ALL, size=1) if isinstance(layer, ByHead) else None
        for layer in record.attention[kind].layers
    ]


def _reached(record: Record, kind: str) -> Visible:
    """The inputs that each output can reach through all layers."""
    whole: Tensor | None = None
    for seen in _seen(record, kind):
        if seen is None:
            return [None]
        step = (seen | torch.eye(len(seen), dtype=torch.bool)).float()
        whole = step if whole is None else step @ whole
    return [None if whole is None else whole > 0]


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
        _no_weights,
        _weights,
        _seen,
    ),
    "arriving": Quantity(
        "weights × lengths of values",
        "length",
        "A weight times the length of the value that it weighs, after the output projection: how "
        "much arrives (Kobayashi et al. 2020). Rows do not sum to 1; lengths of a word's pieces "
        "are added as if they pointed the same way.",
        _no_values,
        _arriving,
        _seen,
        is_share=False,
    ),
    "rollout": Quantity(
        "rollout through all layers",
        "share",
        "How much of each input is left in each output after all layers of this kind (Abnar & "
        f"Zuidema 2020). {FOLLOWED}",
        _no_rollout,
        lambda record, kind, own: rollout(record, kind, residual=own.residual)[None, None],
        _reached,
        is_joined=True,
    ),
    "flow": Quantity(
        "flow through all layers",
        "flow",
        "The most that fits from each output down to each input if weights were the widths of "
        f"pipes (Abnar & Zuidema 2020). Rows do not sum to 1. {FOLLOWED}",
        lambda record, kind: _no_rollout(record, kind, MAX_FLOW_PLACES),
        _flow,
        _reached,
        is_joined=True,
        is_share=False,
    ),
    "answer": Quantity(
        "rollout down to the source",
        "share",
        "How much of each output comes from each word of the source, through all layers of "
        "decoder and encoder. A row sums to less than 1: the rest comes from what was written "
        f"before. {FOLLOWED}",
        _no_answer,
        lambda record, _, chosen: answer_rollout(record, residual=chosen.residual).source[
            None, None
        ],
        lambda record, kind: [None],
        is_joined=True,
        is_share=False,
    ),
}
