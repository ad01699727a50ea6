"""Sparsemax: the nearest point of the simplex to the scores; weak keys get exactly nothing.

    a[i,j] = max(e[i,j] - tau[i], 0),   tau[i] such that the row sums to 1

Paper: Martins & Astudillo 2016, equations 2 to 4.
Cost: time O(q · k log k) for the sort; one threshold per row is kept.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Selection, Threshold, largest_negative, wide
from regard.attention.shapes import Mask, Queries, RowNumber, Scores, Weights
from regard.dims import Dims
from regard.places import Places


class SparseRows(NamedTuple):
    """The threshold below which a key gets nothing."""

    threshold: RowNumber


@final
class SparsemaxSelection(nn.Module, Selection):
    """The Euclidean projection of each row of scores onto the simplex."""

    is_movable = True

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def summarise(self, scores: Scores, mask: Mask, query: Queries, places: Places) -> SparseRows:
        """The threshold of each row."""
        scores = wide(scores)
        best = scores.masked_fill(~mask, largest_negative(scores)).amax(-1, keepdim=True).detach()
        # a key more than 1 below the best is outside in any case, so -2 stands for "masked"
        down = torch.where(mask, scores - best, -2.0).clamp(min=-2.0)
        return SparseRows(best + simplex_threshold(down))

    def weigh(self, scores: Scores, mask: Mask, rows: SparseRows, places: Places) -> Weights:
        """The part of each score above the threshold."""
        above = torch.where(mask, scores - rows.threshold, 0.0).relu()
        return above.to(scores.dtype)

    def as_threshold(self) -> Threshold:
        """The part of each score above the threshold."""
        return Threshold(best=None, rows=lambda threshold, _: SparseRows(threshold))


def simplex_threshold(points: Float[Tensor, "*b k"]) -> Float[Tensor, "*b 1"]:
    """The theta for which max(points - theta, 0) sums to one."""
    high = points.sort(-1, descending=True).values
    count = torch.arange(1, points.shape[-1] + 1, device=points.device)
    sums = high.cumsum(-1)
    support = (count * high > sums - 1).sum(-1, keepdim=True)
    return (sums.gather(-1, support - 1) - 1) / support
