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
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import AttentionMap, all_of, attend
from regard.attention.tables import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import LengthError, SettingError
from regard.inspecting.catalogue import mechanism
from regard.inspecting.dead_maps import entropies
from regard.inspecting.record import Record

MOST = 200
"""The most queries or keys; more cannot be read beside each other."""
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
    panels = [_panel("model", "as the model does it", one.mechanism, own, own)]
    for other in OTHERS:
        known = mechanism(other.name)
        if kind in other.kinds and _fits(seen, known.kind):
            weights = _weights(seen, other, known.kind)[0, head].float().cpu()
            said = ", ".join(f"{name} {value}" for name, value in other.settings.items())
            panels.append(_panel(other.name, known.summary, said, weights, own))
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


def _weights(seen: AttentionMap, other: Other, kind: str) -> Float[Tensor, "b h q k"]:
    n_heads, width = seen.query.shape[-3], seen.query.shape[-1]
    longest = max(seen.shape[-2:])
    dims = Dims(d_model=width, n_heads=n_heads, max_len=longest)
    link = Choice(other.name, dict(other.settings)).build(TABLES[kind], dims)
    if isinstance(link, nn.Module):
        link.eval().to(seen.query.device)
    links: dict[str, Any] = {
        "score": seen.score,
        "relation": seen.relation,
        "select": seen.select,
        "mask": seen.mask,
        **PUT[kind](seen, link),
    }
    with torch.inference_mode():
        return attend(
            seen.query,
            seen.key,
            seen.key,
            links["mask"],
            score=links["score"],
            relation=links["relation"],
            select=links["select"],
            places=seen.places,
        ).map.dense()


def _panel(
    name: str, title: str, settings: str, weights: Float[Tensor, "q k"], own: Float[Tensor, "q k"]
) -> dict[str, object]:
    return {
        "name": name,
        "title": title,
        "settings": settings,
        "weights": [[round(weight, 7) for weight in row] for row in weights.tolist()],
        "entropy": float(entropies(weights).mean()),
        "zeros": float((weights == 0).float().mean()),
        "difference": float((weights - own).abs().sum(-1).mean() / 2),
        "same_first": float((weights.argmax(-1) == own.argmax(-1)).float().mean()),
    }


def _with_parameters() -> set[str]:
    """Links that cannot be put in, since they would have to be trained first."""
    learned = {*SCORES, *RELATIONS, *SELECTIONS, *MEMORIES}
    return learned - {other.name for other in OTHERS} - {"soft"}
