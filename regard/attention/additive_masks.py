"""Additive masks: a matrix of floats that is added to the scores; minus infinity hides a pair.

    e[i,j] += m[i,j],   visible[i,j] = m[i,j] > -inf

It becomes a boolean mask and a relation that depends on the places alone, as all paths know them.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.links import AnyMask, Pattern, Relation
from regard.attention.masks import at_places, check_is_pattern, check_reach, given
from regard.attention.shapes import Bias, Context, Queries, Weights
from regard.places import Places

LEAST = -(2.0**15)
"""The least number that is added: a lower one, such as -1e9, would swallow the score it is added to
and leave rows of nothing else without a sum, in half precision infinite."""


@final
class AdditiveMask(Relation):
    """A matrix added to the scores, indexed by the positions of queries and keys."""

    reads_query, own_name = False, "an additive mask"

    def __init__(self, matrix: Float[Tensor, "*b n k"]) -> None:
        self.matrix = matrix

    def __deepcopy__(self, memo: dict[int, object]) -> "AdditiveMask":
        """The matrix belongs to a call and is no weight, so a copy shares it."""
        return AdditiveMask(self.matrix.detach())

    def to_scores(self, query: Queries, places: Places) -> Bias:
        """The matrix at these places, in the precision of the scores."""
        return self.as_bias(places).to(query.dtype)

    def as_bias(self, places: Places) -> Bias:
        """The matrix at these places."""
        return at_places(self.matrix, places)


@final
class SumOfRelations(Relation):
    """What two relations add, together."""

    def __init__(self, one: Relation, other: Relation) -> None:
        self.one, self.other = one, other
        self.reads_query = one.reads_query or other.reads_query

    def to_scores(self, query: Queries, places: Places) -> Bias:
        """Both terms of the scores."""
        return self.one.to_scores(query, places) + self.other.to_scores(query, places)

    def to_context(self, weights: Weights, places: Places) -> Context | float:
        """Both terms of the context."""
        return self.one.to_context(weights, places) + self.other.to_context(weights, places)

    def as_bias(self, places: Places) -> Bias | None:
        """Both biases, if both are biases."""
        one, other = self.one.as_bias(places), self.other.as_bias(places)
        return None if one is None or other is None else one + other


class BiasedMask(NamedTuple):
    """A mask that stays what it is, and a finite matrix that is added to the scores."""

    mask: Pattern | Tensor
    added: Float[Tensor, "*b n k"]


def split_mask(
    mask: AnyMask | BiasedMask, relation: Relation, places: Places
) -> tuple[Pattern, Relation]:
    """What a mask shows, and the relation with what it adds to the scores."""
    if isinstance(mask, BiasedMask):
        shown, relation = split_mask(mask.mask, relation, places)
        return shown, _with(relation, mask.added)
    if not isinstance(mask, Tensor):
        if not torch.compiler.is_compiling():
            check_is_pattern("mask", mask)
        return mask, relation
    if places.past is not None:
        check_reach(mask, places.past + places.n_queries, places.length)
    if not mask.is_floating_point():
        return given(mask), relation
    hidden = mask == -torch.inf
    return given(~hidden), _with(relation, mask.masked_fill(hidden, 0.0).clamp(min=LEAST))


def _with(relation: Relation, matrix: Float[Tensor, "*b n k"]) -> Relation:
    """The relation, and a matrix that is added to the scores too."""
    added = AdditiveMask(matrix)
    return added if relation.is_zero else SumOfRelations(relation, added)
