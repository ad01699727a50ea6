"""The numbers of a trained head for the worked example: its queries, keys and values of a text.

    K = K' B,  Q' = Q Bᵀ,  Q' K'ᵀ = Q Kᵀ      rows of B: of length 1, at right angles, span all keys

A head has more numbers to a word than a page has room for, but n keys lie in a space of n
dimensions: turned into it, they have n numbers each and every product stays what it was. Values are
turned likewise, so that the context keeps its length and its direction in their space.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.attention.links import Dot
from regard.choices import find
from regard.errors import LengthError, SettingError
from regard.inspecting.panels import View
from regard.inspecting.record import Record

MOST_PIECES = 24
"""Queries or keys; every number of them has to be read."""

REFUSALS: Sequence[tuple[Callable[[AttentionMap], bool], str]] = (
    (lambda seen: _dot(seen) is None, "its scores are no products of queries and keys"),
    (lambda seen: not seen.relation.is_zero, "its scores have a part for the distance"),
    (lambda seen: seen.select.as_softmax() is None, "its weights are no softmax"),
    (lambda seen: seen.value is None, "its values were not kept"),
    (lambda seen: seen.columns != "keys", "its keys are slots of a shortened memory"),
    (lambda seen: _causality(seen) is None, "its mask is neither none nor causal"),
)
"""What the steps of the example cannot follow, and how to say so."""


def loaded_head(record: Record, kind: str, layer: int, head: int) -> dict[str, object]:
    """Queries, keys and values of one head, turned so that they fit a page.

    Args:
        record: what the model looked at.
        kind: "encoder", "decoder" or "cross".
        layer: counted from 0.
        head: counted from 0.
    """
    one = find(kind, record.attention)
    if max(len(one.queries), len(one.keys)) > MOST_PIECES:
        raise LengthError(
            f"worked: {len(one.queries)} by {len(one.keys)} pieces are too many to read every "
            f"number of; at most {MOST_PIECES}. Take a shorter text."
        )
    own = record.weights(kind, layer, head)
    seen = one.layers[layer]
    if not isinstance(seen, AttentionMap):
        raise SettingError(
            "worked: this record holds weights alone; the example needs its queries and keys. Look "
            "at the text again."
        )
    for holds, reason in REFUSALS:
        if holds(seen):
            raise SettingError(
                f"worked: the example cannot follow this head: {reason}. Take another kind of "
                "attention, or a run with scaled dot products."
            )
    dot, softmax, value = _dot(seen), seen.select.as_softmax(), seen.value
    assert dot is not None
    assert softmax is not None
    assert value is not None
    key, query = _turned(_rows(dot.key, head), _rows(dot.query, head))
    (values,) = _turned(_rows(value, head))
    return {
        "title": record.title(View(kind, layer, head)),
        "queries": list(one.queries.pieces),
        "keys": list(one.keys.pieces),
        "Q": query.tolist(),
        "K": key.tolist(),
        "V": values.tolist(),
        "width": dot.key.shape[-1],
        "divisor": 1 / (dot.scale * softmax),
        "is_causal": _causality(seen),
        "weights": own.tolist(),
    }


def _dot(seen: AttentionMap) -> Dot | None:
    with torch.inference_mode():
        return seen.score.as_dot(seen.query, seen.key)


def _rows(numbers: Float[Tensor, "b h n d"], head: int) -> Float[Tensor, "n d"]:
    return numbers[0, head].double().cpu()


def _turned(
    first: Float[Tensor, "n d"], *others: Float[Tensor, "m d"]
) -> tuple[Float[Tensor, "..."], ...]:
    """All of them in the space that the rows of the first span, where that is smaller."""
    if len(first) >= first.shape[-1]:
        return first, *others
    basis = torch.linalg.svd(first, full_matrices=False).Vh
    return first @ basis.mT, *(other @ basis.mT for other in others)


def _causality(seen: AttentionMap) -> bool | None:
    """False where all is seen, True where nothing that comes later is, None for other masks."""
    n_queries, n_keys = seen.shape[-2:]
    visible = seen.may_hold(slice(None), slice(None), size=1)
    if bool(visible.all()):
        return False
    past = torch.ones(n_queries, n_keys, dtype=torch.bool).tril()
    return True if torch.equal(visible, past) else None
