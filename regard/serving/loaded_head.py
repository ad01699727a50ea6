"""The numbers of a trained head for the worked example: its queries, keys and values of a text.

    K = K' B,  Q' = Q Bᵀ,  Q' K'ᵀ = Q Kᵀ      rows of B: of length 1, at right angles, span all keys

A head has more numbers per word than fit on a page, but n keys span at most n dimensions: rotated
into that space they have n numbers each, and every product stays the same. Values are rotated
likewise, so that the context keeps its length and its direction in their space.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.choices import find
from regard.errors import LengthError, SettingError
from regard.inspecting.panels import View
from regard.inspecting.record import Attention, Record

MAX_PIECES = 24
"""The most queries or keys; readers look at every number of them."""


def loaded_head(record: Record, kind: str, layer: int, head: int) -> dict[str, object]:
    """Queries, keys and values of one head, rotated so that they fit a page."""
    who = "worked", "read every number of", "the example needs"
    one, own, seen = short_head(record, kind, layer, head, MAX_PIECES, *who)
    with torch.inference_mode():
        dot = seen.score.as_dot(seen.query, seen.key)
    softmax, value, is_causal = seen.select.as_softmax(), seen.value, _causality(seen)
    reasons = {
        "its scores are no products of queries and keys": dot is None,
        "its scores have a part for the distance": not seen.relation.is_zero,
        "its weights are no softmax": softmax is None,
        "its values were not kept": value is None,
        "its keys are slots of a shortened memory": seen.columns != "keys",
        "its mask is neither none nor causal": is_causal is None,
    }
    if dot is None or softmax is None or value is None or any(reasons.values()):
        reason = next(reason for reason, holds in reasons.items() if holds)
        raise SettingError(
            f"worked: the example cannot follow this head: {reason}. Take another kind of "
            "attention, or a run with scaled dot products."
        )
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
        "is_causal": is_causal,
        "weights": own.tolist(),
    }


def short_head(
    record: Record, kind: str, layer: int, head: int, most: int, who: str, purpose: str, needs: str
) -> tuple[Attention, Float[Tensor, "q k"], AttentionMap]:
    """One kind of attention, the weights of one of its heads, and the map of the head's layer.

    Layers and heads are counted from 0. The last three are parts of the errors for a text of more
    than `most` pieces, and for a record without queries and keys.
    """
    one = find(kind, record.attention)
    if max(len(one.queries), len(one.keys)) > most:
        raise LengthError(
            f"{who}: {len(one.queries)} by {len(one.keys)} pieces are too many to {purpose}; at "
            f"most {most}. Take a shorter text."
        )
    own, seen = record.weights(kind, layer, head), one.layers[layer]
    if not isinstance(seen, AttentionMap):
        raise SettingError(
            f"{who}: this record holds weights alone; {needs} its queries and keys. Look at the "
            "text again."
        )
    return one, own, seen


def _rows(numbers: Float[Tensor, "b h n d"], head: int) -> Float[Tensor, "n d"]:
    return numbers[0, head].double().cpu()


def _turned(
    first: Float[Tensor, "n d"], *others: Float[Tensor, "m d"]
) -> tuple[Float[Tensor, "..."], ...]:
    """All matrices in the space that the rows of the first span, if that is smaller."""
    if len(first) >= first.shape[-1]:
        return first, *others
    basis = torch.linalg.svd(first, full_matrices=False).Vh
    return first @ basis.mT, *(other @ basis.mT for other in others)


def _causality(seen: AttentionMap) -> bool | None:
    """False without a mask, True for a causal mask, None for others."""
    n_queries, n_keys = seen.shape[-2:]
    visible = seen.may_hold(slice(None), slice(None), size=1)
    if bool(visible.all()):
        return False
    past = torch.ones(n_queries, n_keys, dtype=torch.bool).tril()
    return True if torch.equal(visible, past) else None
