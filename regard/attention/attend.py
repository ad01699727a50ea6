"""The chain: score → relate → mask → select → combine. This is the law; every path must equal it.

context[i] = sum_j a[i,j] v[j] (+ what the relation adds),   a = select(score(q, k) + relation)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout as drop

from regard.attention.links import NO_RELATION, Pattern, Relation, Score, Selection
from regard.attention.maps import AttentionMap
from regard.attention.masks import FULL, given
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.attention.selections.soft import SoftSelection
from regard.errors import ShapeError
from regard.places import Places

SCALED_DOT = ScaledDotScore()
SOFT = SoftSelection()


@final
@dataclass(frozen=True)
class Attended:
    """What an attention gives back."""

    context: Float[Tensor, "*b q dv"]
    see: Callable[[], AttentionMap]
    """Makes the map; most of what attends is never looked at."""
    rows: tuple[Tensor, ...]
    """What the selection keeps of each row, with gradients (a REINFORCE loss reads it)."""

    @property
    def map(self) -> AttentionMap:
        """The weights, any rectangle of them on demand."""
        return self.see()

    def with_context(self, context: Float[Tensor, "*b n m"]) -> "Attended":
        """The same look, with what a layer makes of its context."""
        return Attended(context, self.see, self.rows)


def attend(
    query: Float[Tensor, "*b q dq"],
    key: Float[Tensor, "*b k dk"],
    value: Float[Tensor, "*b k dv"],
    mask: Pattern | Tensor = FULL,
    *,
    score: Score = SCALED_DOT,
    relation: Relation = NO_RELATION,
    select: Selection = SOFT,
    places: Places | None = None,
    dropout: float = 0.0,
) -> Attended:
    """Attend densely, exactly as the equations say.

    >>> import torch
    >>> x = torch.tensor([[1.0, 3, 2], [1, 1, 3], [1, 2, 1]])
    >>> attend(x, x, x).context
    tensor([[1.0000, 2.7798, 2.0377],
            [1.0000, 1.7288, 2.5839],
            [1.0000, 2.6080, 2.0000]])

    Args:
        query: what is looked for.
        key: what each position offers to be found by.
        value: what is taken from a position once it is found.
        mask: who may see whom; a pattern, or a boolean matrix with True = may attend.
        score: how well a query suits a key.
        relation: what distance adds.
        select: how scores become weights.
        places: where queries and keys stand; counted from 0 unless given.
        dropout: share of the weights that is dropped (training only; 0 in the papers).
    """
    check_shapes(query, key, value)
    mask = given(mask) if isinstance(mask, Tensor) else mask
    places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
    visible = mask.visible(places)
    scores = score(query, key, places) + relation.to_scores(query, places)
    rows = select.summarise(scores, visible, query, places)
    weights = drop(select.weigh(scores, visible, rows, places), dropout, training=dropout > 0)
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
    return Attended(context, see, rows)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Say what does not fit before a kernel says it in its own words."""
    if key.shape[:-1] != value.shape[:-1] or query.shape[:-2] != key.shape[:-2]:
        raise ShapeError(
            "attend: expected query (b, h, q, d), key (b, h, k, d) and value (b, h, k, d) with the "
            f"same b, h and k; got {_shape(query)}, {_shape(key)} and {_shape(value)}."
        )


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
