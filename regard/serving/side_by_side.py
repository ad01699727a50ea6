"""Mechanisms side by side: what other links would make of the queries and keys a model really has.

The first of them is the model itself. Every other takes the same queries and keys (and sees no key
that the model may not see), changes one link of the chain, and is computed by `attend`. Links with
parameters of their own are left out: parameters that nobody trained would show nothing. So are
products of queries and keys where those of the model have two widths.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from regard.attention import AttentionMap, all_of, attend
from regard.attention.tables import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.catalogue import mechanism
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import LengthError, SettingError
from regard.inspecting.dead_maps import entropies
from regard.inspecting.record import Record, rounded
from regard.serving.seen_keys import spans

MOST = 200
"""The most queries or keys; more cannot be read beside each other."""
NUMBER_BYTES = 4
"""Of a score in single precision."""
SELF = ("encoder", "decoder")
"""Kinds in which queries and keys stand in one text, so that distance means something."""


@final
@dataclass(frozen=True)
class Other:
    """One link put in the place of the model's."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = (*SELF, "cross")


OTHERS: Sequence[Other] = (
    Other("scaled_dot"),
    Other("dot"),
    Other("hard"),
    Other("sparsemax"),
    Other("top_k", {"count": 3}),
    Other("local_monotonic", {"half_width": 2}),
    Other("linear_bias", kinds=SELF),
    Other("sliding_window", {"size": 2}, kinds=SELF),
    Other("blocks", {"size": 4}, kinds=SELF),
)
PUT: Mapping[str, Callable[[AttentionMap, Any], dict[str, Any]]] = {
    "score": lambda seen, link: {"score": link},
    "relation": lambda seen, link: {"relation": link},
    "selection": lambda seen, link: {"select": link},
    "pattern": lambda seen, link: {"mask": all_of(seen.mask, link)},
}
"""How a link of a kind is put in the place of a map's own; a pattern may only hide more."""
PRODUCTS = frozenset({"score"})
"""Kinds of links that multiply queries with keys, which must have one width for it."""
TABLES: Mapping[str, Mapping[str, Any]] = {
    "score": SCORES,
    "relation": RELATIONS,
    "selection": SELECTIONS,
    "pattern": PATTERNS,
}


def side_by_side(record: Record, kind: str, layer: int, head: int) -> dict[str, object]:
    """The weights of one head, by its own mechanism and by others.

    Args:
        record: what the model looked at.
        kind: "encoder", "decoder" or "cross".
        layer: counted from 0.
        head: counted from 0.
    """
    one = find(kind, record.attention)
    own = record.weights(kind, layer, head)
    if max(own.shape) > MOST:
        raise LengthError(
            f"mechanisms: {own.shape[0]} by {own.shape[1]} pieces are too many to compare; at most "
            f"{MOST}. Take a shorter text."
        )
    seen = one.layers[layer]
    if not isinstance(seen, AttentionMap):
        raise SettingError(
            "mechanisms: this record holds weights alone; other mechanisms need its queries and "
            "keys. Look at the text again."
        )
    model = _looked(seen, {}, head)
    panels = [_panel("model", "as the model does it", one.mechanism, own, model, model)]
    for other in OTHERS:
        known = mechanism(other.name)
        if kind in other.kinds and _fits(seen, known.kind):
            made = _looked(seen, _put(seen, other, known.kind), head)
            said = ", ".join(f"{name} {value}" for name, value in other.settings.items())
            panels.append(_panel(other.name, known.summary, said, made.weights, made, model))
    return {
        "kind": kind,
        "layer": layer,
        "head": head,
        "query_title": one.query_title,
        "key_title": one.key_title,
        "queries": list(one.queries.pieces),
        "keys": list(one.keys.pieces),
        "panels": panels,
        "left_out": sorted(_with_parameters()),
    }


def _fits(seen: AttentionMap, kind: str) -> bool:
    """Whether a link of a kind can read these queries and keys; a product needs one width."""
    return kind not in PRODUCTS or seen.query.shape[-1] == seen.key.shape[-1]


def _put(seen: AttentionMap, other: Other, kind: str) -> dict[str, Any]:
    """The link that another mechanism puts in the place of the model's."""
    n_heads, width = seen.query.shape[-3], seen.query.shape[-1]
    longest = max(seen.shape[-2:])
    dims = Dims(d_model=width, n_heads=n_heads, max_len=longest)
    link = Choice(other.name, dict(other.settings)).build(TABLES[kind], dims)
    if isinstance(link, nn.Module):
        link.eval().to(seen.query.device)
    return PUT[kind](seen, link)


@final
@dataclass(frozen=True)
class Looked:
    """What one head makes of its queries, keys and values by one mechanism."""

    weights: Float[Tensor, "q k"]
    context: Float[Tensor, "q d"] | None
    """What it reads; None where the values were not kept."""
    visible: Bool[Tensor, "q k"]
    """Which keys each query may see."""
    width: int | None
    """Numbers that are multiplied for one score; None where it is no product."""

    @property
    def n_scored(self) -> int:
        """Pairs of a query and a key that it may see."""
        return int(self.visible.sum())

    @property
    def n_operations(self) -> int | None:
        """Multiplications and additions for scores and context; the selection's are not counted."""
        if self.width is None or self.context is None:
            return None
        n_read = int((self.weights != 0).sum())
        return 2 * self.width * self.n_scored + 2 * self.context.shape[-1] * n_read


def _looked(seen: AttentionMap, put: Mapping[str, Any], head: int) -> Looked:
    links: dict[str, Any] = {
        "score": seen.score,
        "relation": seen.relation,
        "select": seen.select,
        "mask": seen.mask,
        **put,
    }
    value = seen.key if seen.value is None else seen.value
    with torch.inference_mode():
        attended = attend(
            seen.query,
            seen.key,
            value,
            links["mask"],
            score=links["score"],
            relation=links["relation"],
            select=links["select"],
            places=seen.places,
        )
        dot = links["score"].as_dot(seen.query, seen.key)
        visible = attended.map.may_hold(slice(None), slice(None), size=1)
    return Looked(
        attended.map.dense()[0, head].float().cpu(),
        None if seen.value is None else attended.context[0, head].float().cpu(),
        visible,
        None if dot is None else dot.query.shape[-1],
    )


def _panel(
    name: str, title: str, settings: str, weights: Float[Tensor, "q k"], made: Looked, model: Looked
) -> dict[str, object]:
    own = model.weights
    return {
        "name": name,
        "title": title,
        "settings": settings,
        "weights": rounded(weights),
        "entropy": float(entropies(weights).mean()),
        "zeros": float((weights == 0).float().mean()),
        "difference": float((weights - own).abs().sum(-1).mean() / 2),
        "same_first": float((weights.argmax(-1) == own.argmax(-1)).float().mean()),
        "cosine": _cosine(made.context, model.context),
        "operations": made.n_operations,
        "bytes": NUMBER_BYTES * made.n_scored,
        "visible": [spans(row) for row in made.visible.tolist()],
    }


def _cosine(one: Float[Tensor, "q d"] | None, other: Float[Tensor, "q d"] | None) -> float | None:
    """How alike two outputs point, averaged over queries; 1 is the same direction."""
    if one is None or other is None:
        return None
    return float(cosine_similarity(one, other, dim=-1).mean())


def _with_parameters() -> set[str]:
    """Links that cannot be put in, since they would have to be trained first."""
    learned = {*SCORES, *RELATIONS, *SELECTIONS, *MEMORIES}
    return learned - {other.name for other in OTHERS} - {"soft"}
