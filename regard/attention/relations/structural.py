"""Structural relation: distance in the dependency tree, beside distance in the sentence.

    e[i,j] = q[i] · (k[j] + R[clip(j - i)] + T[clip(rel(i,j))]) / sqrt(d)
    rel(i,j) = depth(i) - depth(j) on a tree edge, else sign(i - j) (depth(i) + depth(j))

Paper: Wang, Tu, Wang & Shi 2019, section 3.2.
Cost: time and memory O(q · (2 clip + 1)) beside the scores; the tree distances are integers.
"""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.links import Relation
from regard.attention.relations.shaw import pick
from regard.attention.shapes import Queries, Scores
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import ShapeError, check_least
from regard.places import Places


@final
class StructuralRelation(nn.Module, Relation):
    """Two tables of key vectors: one for the sentence, one for the tree."""

    is_movable = adds_to_keys = needs_trees = True

    def __init__(self, dims: Dims, *, clip: int = 16) -> None:
        super().__init__()
        check_least("structural: clip", clip, 0)
        self.clip = clip
        self.widths = Widths(dims.n_heads, dims.query)
        self.R = nn.Parameter(torch.empty(dims.n_heads, 2 * clip + 1, dims.query))
        self.T = nn.Parameter(torch.empty(dims.n_heads, 2 * clip + 1, dims.query))
        for table in (*self.R, *self.T):
            nn.init.xavier_uniform_(table)

    def extra_repr(self) -> str:
        """The clip."""
        return f"clip={self.clip}"

    def to_scores(self, query: Queries, places: Places) -> Scores:
        """Both distances' vectors, seen by the query."""
        scaled = query * query.shape[-1] ** -0.5
        in_sentence = pick(scaled @ self.R.mT, self._index(places.offsets))
        in_tree = pick(scaled @ self.T.mT, self._index(tree_distance(places)[:, None]))
        return in_sentence + in_tree

    def _index(self, distance: Int[Tensor, "*b q k"]) -> Int[Tensor, "*b q k"]:
        return distance.clamp(-self.clip, self.clip) + self.clip


def tree_distance(places: Places) -> Int[Tensor, "b q k"]:
    """rel(i,j) of every pair; antisymmetric, zero on the diagonal."""
    if places.tree is None:
        raise ShapeError(
            "structural: the sentences' dependency trees are missing. Pass "
            "places=Places.between(n, n, tree=Tree.from_heads(heads))."
        )
    i, j = places.query.squeeze(-1), places.key.squeeze(-2)
    depth, parent = places.tree.depth, places.tree.parent
    depth_i, depth_j = depth[:, i][..., None], depth[:, j][:, None]
    joined = (parent[:, i][..., None] == j) | (parent[:, j][:, None] == i[:, None])
    apart = torch.sign(i[:, None] - j) * (depth_i + depth_j)
    return torch.where(joined, depth_i - depth_j, apart)
