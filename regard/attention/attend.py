"""The chain: score → relate → mask → select → combine. The reference for all paths.

context[i] = sum_j a[i,j] v[j] (+ what the relation adds),   a = select(score(q, k) + relation)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout as drop

from regard.attention.additive_masks import split_mask
from regard.attention.given_links import given_link
from regard.attention.links import NO_RELATION, AnyMask, Relation, Score, Selection
from regard.attention.maps import AttentionMap
from regard.attention.masks import FULL
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.attention.selections.soft import SoftSelection
from regard.attention.tables import name_of
from regard.errors import ShapeError
from regard.places import Places

SCALED_DOT = ScaledDotScore()
SOFT = SoftSelection()


@final
@dataclass(frozen=True)
class Attended:
    """The result of an attention: context and map."""

    context: Float[Tensor, "*b q dv"]
    see: Callable[[], AttentionMap]
    """Makes the map when it is read, as most maps never are."""
    rows: tuple[Tensor, ...]
    """The selection's numbers for each row, with gradients (a REINFORCE loss reads them)."""
    value: Float[Tensor, "*bv k d"]
    """The values that were weighed: memory slots, if a memory shortened them."""

    def __repr__(self) -> str:
        return f"Attended(context={tuple(self.context.shape)}, map={self.map})"

    @property
    def map(self) -> AttentionMap:
        """The weights as a lazy map, which computes any rectangle on demand."""
        return self.see()

    def with_context(self, context: Float[Tensor, "*b n m"]) -> "Attended":
        """The same result with another context, such as a layer's output."""
        return Attended(context, self.see, self.rows, self.value)


def attend(
    query: Float[Tensor, "*b q dq"],
    key: Float[Tensor, "*b k dk"],
    value: Float[Tensor, "*b k dv"],
    mask: AnyMask = FULL,
    *,
    score: Score | str = SCALED_DOT,
    relation: Relation | str = NO_RELATION,
    select: Selection | str = SOFT,
    places: Places | None = None,
    dropout: float = 0.0,
) -> Attended:
    """Attend densely, exactly by the equations.

    >>> import torch
    >>> x = torch.tensor([[1.0, 3, 2], [1, 1, 3], [1, 2, 1]])
    >>> attend(x, x, x).context
    tensor([[1.0000, 2.7798, 2.0377],
            [1.0000, 1.7288, 2.5839],
            [1.0000, 2.6080, 2.0000]])

    A link is an object, or a name: `select="sparsemax"`. The mask is a pattern, a boolean matrix
    with True = may attend, or a matrix of floats that is added to the scores. Queries and keys are
    counted from 0 unless `places` says where they stand. `dropout` is the share of the weights that
    is dropped (training only; 0 in the papers).
    """
    check_shapes(query, key, value)
    score, relation, select = _links(score, relation, select)
    if score.needs_one_width and query.shape[-1] != key.shape[-1]:
        raise one_width_error("attend", score, query.shape[-1], key.shape[-1])
    places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
    mask, relation = split_mask(mask, relation, places)
    visible = mask.visible(places)
    scores = score(query, key, places)
    if not torch.compiler.is_compiling():
        _check_scores(scores, score, (query.shape[-2], key.shape[-2]))
    scores = scores + relation.to_scores(query, places)
    rows = select.summarise(scores, visible, query, places)
    weights = select.weigh(scores, visible, rows, places)
    weights = drop(weights, dropout) if dropout > 0 else weights
    context = weights @ value + relation.to_context(weights, places)
    see = partial(
        AttentionMap,
        query=query,
        key=key,
        rows=rows,
        places=places,
        mask=mask,
        score=score,
        relation=relation,
        select=select,
    )
    return Attended(context, see, rows, value)


def _links(*given: object) -> tuple[Score, Relation, Selection]:
    """The links that a caller means; those of a compiled chain were checked when it was made."""
    found: Any = given
    if not torch.compiler.is_compiling():
        places = ("score", "relation", "select")
        found = (given_link("attend", *pair) for pair in zip(places, given, strict=True))
    score, relation, select = found
    return score, relation, select


def _check_scores(scores: object, score: Score, wanted: tuple[int, int]) -> None:
    """Refuse what a score of the caller's own gives, if it is not a number for each pair."""
    if not isinstance(scores, Tensor) or scores.shape[-2:] != wanted:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ShapeError(
            f"{name_of(score)}: expected scores of shape (b, h, {wanted[0]}, {wanted[1]}), a "
            f"number for each query and key, got {got}. Mend its forward."
        )


def check_shapes(query: Tensor, key: Tensor, value: Tensor, *, who: str = "attend") -> None:
    """Refuse what is no tensor, and shapes that do not fit, with an error that names them."""
    for name, given in (("query", query), ("key", key), ("value", value)):
        if not isinstance(given, Tensor):
            raise ShapeError(
                f"{who}: {name} must be a tensor, got an object of {type(given).__name__}. "
                f"Write torch.tensor({name}) or torch.from_numpy({name})."
            )
    is_vector = min(query.dim(), key.dim(), value.dim()) < 2
    if is_vector or key.shape[:-1] != value.shape[:-1] or query.shape[:-2] != key.shape[:-2]:
        raise ShapeError(
            f"{who}: expected query (b, h, q, d), key (b, h, k, d) and value (b, h, k, d) with the "
            "same b, h and k; got {}, {} and {}. Reshape them, with a mask for sentences of other "
            "lengths.".format(*(tuple(tensor.shape) for tensor in (query, key, value)))
        )
    if not are_alike(query, key, value):
        _check_numbers(query, key, value, who)


def are_alike(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether all three are floats of one kind on one device."""
    return (
        query.dtype == key.dtype == value.dtype
        and query.device == key.device == value.device
        and query.is_floating_point()
    )


def one_width_error(who: str, score: Score, query: int | None, key: int | None) -> ShapeError:
    """The error for queries and keys of two widths, of a score that compares them as they are."""
    return ShapeError(
        f"{who}: {name_of(score)} compares queries and keys of one width, got {query} and {key}. "
        "Give them one width, or take general or additive."
    )


def _check_numbers(query: Tensor, key: Tensor, value: Tensor, who: str) -> None:
    """Refuse numbers that are no floats, of several kinds, or on several devices."""
    every = (query, key, value)
    kinds, devices = ([str(getattr(one, name)) for one in every] for name in ("dtype", "device"))
    if len(set(devices)) > 1:
        raise ShapeError(
            f"{who}: expected query, key and value on one device, got {', '.join(devices)}. Write "
            "key.to(query.device)."
        )
    if not all(one.is_floating_point() for one in every):
        raise ShapeError(
            f"{who}: expected query, key and value of floats, got {', '.join(kinds)}. Write "
            "x.float(); ids of words become vectors by nn.Embedding."
        )
    # autocast itself brings them to one kind
    if not torch.is_autocast_enabled(query.device.type):
        raise ShapeError(
            f"{who}: expected query, key and value of one dtype, got {', '.join(kinds)}. Write "
            "key.to(query.dtype)."
        )
