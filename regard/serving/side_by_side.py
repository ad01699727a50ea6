"""Mechanisms side by side: weights that other links give for the queries and keys of a model.

The first of them is the model itself. Every other takes the same queries and keys (and sees no key
that the model may not see), changes one link of the chain, and is computed by `attend`. Links with
parameters of their own are left out, since untrained parameters show nothing. So are products of
queries and keys if these differ in width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from regard.attention import AttentionMap, all_of, attend
from regard.attention.tables import MEMORIES, RELATIONS, SCORES, SELECTIONS
from regard.catalogue import mechanism
from regard.choices import Choice
from regard.dims import Dims
from regard.inspecting import KINDS
from regard.inspecting.dead_maps import entropies
from regard.inspecting.record import Record, rounded
from regard.serving.loaded_head import short_head
from regard.serving.quantities import spans

MAX_PIECES = 200
"""The most queries or keys; more are unreadable side by side."""
NUMBER_BYTES = 4
"""Of a score in single precision."""
SELF = ("encoder", "decoder")
"""Kinds in which queries and keys stand in one text, so that distance means something."""

Weights = Float[Tensor, "q k"]


@final
@dataclass(frozen=True)
class OtherLink:
    """One link that replaces the model's link of its kind."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = (*SELF, "cross")


OTHERS: Sequence[OtherLink] = (
    OtherLink("scaled_dot"),
    OtherLink("dot"),
    OtherLink("hard"),
    OtherLink("sparsemax"),
    OtherLink("top_k", {"count": 3}),
    OtherLink("local_monotonic", {"half_width": 2}),
    OtherLink("linear_bias", kinds=SELF),
    OtherLink("sliding_window", {"size": 2}, kinds=SELF),
    OtherLink("blocks", {"size": 4}, kinds=SELF),
)
FIELDS = {"score": "score", "relation": "relation", "selection": "select", "pattern": "mask"}
"""The field of a map that holds its link of a kind."""


def side_by_side(record: Record, kind: str, layer: int, head: int) -> dict[str, object]:
    """The weights of one head, by its own mechanism and by others."""
    who = "mechanisms", "compare", "other mechanisms need"
    one, own, seen = short_head(record, kind, layer, head, MAX_PIECES, *who)
    model = _computed(seen, head)
    panels = [_panel("model", "as the model does it", one.mechanism, own, model, model)]
    for other in OTHERS:
        known = mechanism(other.name)
        # a product needs queries and keys of equal width
        has_widths = known.kind != "score" or seen.query.shape[-1] == seen.key.shape[-1]
        if kind in other.kinds and has_widths:
            made = _computed(_put(seen, other, known.kind), head)
            settings = ", ".join(f"{name} {value}" for name, value in other.settings.items())
            panels.append(_panel(other.name, known.summary, settings, made.weights, made, model))
    # links with parameters, which would have to be trained first
    learned = {*SCORES, *RELATIONS, *SELECTIONS, *MEMORIES}
    return {
        "kind": kind,
        "layer": layer,
        "head": head,
        "query_title": one.query_title,
        "key_title": one.key_title,
        "queries": list(one.queries.pieces),
        "keys": list(one.keys.pieces),
        "panels": panels,
        "left_out": sorted(learned - {other.name for other in OTHERS} - {"soft"}),
    }


def _put(seen: AttentionMap, other: OtherLink, kind: str) -> AttentionMap:
    """The map with one of its links replaced."""
    _, n_heads, _, width = seen.query.shape
    dims = Dims(d_model=width, n_heads=n_heads, max_len=max(seen.shape[-2:]))
    link = Choice(other.name, dict(other.settings)).build(KINDS[kind], dims)
    if isinstance(link, nn.Module):
        link.eval().to(seen.query.device)
    # a pattern is added to the model's mask, so that no masked key becomes visible
    links: dict[str, Any] = {FIELDS[kind]: all_of(seen.mask, link) if kind == "pattern" else link}
    return replace(seen, **links)


@final
@dataclass(frozen=True)
class Computed:
    """Weights and context of one head by one mechanism."""

    weights: Weights
    context: Float[Tensor, "q d"] | None
    """The context; None where the values were not kept."""
    visible: Bool[Tensor, "q k"]
    """Which keys each query may see."""
    width: int | None
    """Width of the dot product of a score; None where the score is not a dot product."""


def _computed(seen: AttentionMap, head: int) -> Computed:
    value = seen.key if seen.value is None else seen.value
    with torch.inference_mode():
        attended = attend(
            seen.query, seen.key, value, seen.mask, score=seen.score, relation=seen.relation,
            select=seen.select, places=seen.places,
        )  # fmt: skip
        dot = seen.score.as_dot(seen.query, seen.key)
        visible = attended.map.may_hold(slice(None), slice(None), size=1)
    return Computed(
        attended.map.dense()[0, head].float().cpu(),
        None if seen.value is None else attended.context[0, head].float().cpu(),
        visible,
        None if dot is None else dot.query.shape[-1],
    )


def _panel(
    name: str, title: str, settings: str, weights: Weights, made: Computed, own: Computed
) -> dict[str, object]:
    cosine, operations = None, None
    n_scored, n_read = int(made.visible.sum()), int((made.weights != 0).sum())
    if made.width is not None and made.context is not None:
        # multiplications and additions for scores and context; the selection's are not counted
        operations = 2 * made.width * n_scored + 2 * made.context.shape[-1] * n_read
    if made.context is not None and own.context is not None:
        # the cosine of two outputs, averaged over queries; 1 is the same direction
        cosine = float(cosine_similarity(made.context, own.context, dim=-1).mean())
    return {
        "name": name,
        "title": title,
        "settings": settings,
        "weights": rounded(weights),
        "entropy": float(entropies(weights).mean()),
        "zeros": float((weights == 0).float().mean()),
        "difference": float((weights - own.weights).abs().sum(-1).mean() / 2),
        "same_first": float((weights.argmax(-1) == own.weights.argmax(-1)).float().mean()),
        "cosine": cosine,
        "operations": operations,
        "bytes": NUMBER_BYTES * n_scored,
        "visible": [spans(row) for row in made.visible.tolist()],
    }
