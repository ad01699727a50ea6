"""Top-k selection: the softmax of each row's k best keys; the others get exactly nothing.

    a[i,j] = softmax over e[i,j] >= t[i] of e[i,j],   t[i] = the k-th largest score of the row

Paper: Zhao et al. 2019 (Explicit Sparse Transformer), equations 4 to 6.
Cost: time O(q · k); normaliser and threshold are kept per row. Keys tied at t[i] all stay.
"""

from typing import NamedTuple, final

import torch
from torch import nn

from regard.attention.links import (
    Selection,
    Threshold,
    largest_negative,
    log_normaliser,
    normalised,
)
from regard.attention.shapes import Mask, Queries, RowNumber, Scores, Weights
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places

ROUNDING = 16
"""Units in the last place of a row's best score by which tied scores may differ after a sum."""


class TopRows(NamedTuple):
    """The normaliser of the kept keys, and the score above which a key is kept."""

    lse: RowNumber
    threshold: RowNumber


@final
class TopKSelection(nn.Module, Selection):
    """The best `count` keys of each row share the weight."""

    is_movable = True

    def __init__(self, dims: Dims | None = None, *, count: int = 8) -> None:
        super().__init__()
        check_least("top_k: count", count, 1)
        self.count = count

    def extra_repr(self) -> str:
        """How many keys stay."""
        return f"count={self.count}"

    def summarise(self, scores: Scores, mask: Mask, query: Queries, places: Places) -> TopRows:
        """Threshold and normaliser of each row."""
        seen = scores.detach().masked_fill(~mask, largest_negative(scores))
        best = seen.topk(min(self.count, scores.shape[-1])).values
        # the same product at another place of a matrix may be rounded otherwise
        tied = seen >= best[..., -1:] - _rounding(scores.dtype) * best[..., :1].abs()
        last = seen.masked_fill(~tied, torch.inf).amin(-1, keepdim=True)
        below = seen.masked_fill(tied, largest_negative(scores)).amax(-1, keepdim=True)
        # halfway to the next score, so that a score rebuilt in a tile falls on the same side
        threshold = last / 2 + below / 2
        return TopRows(log_normaliser(scores, mask & (scores >= threshold)), threshold)

    def weigh(self, scores: Scores, mask: Mask, rows: TopRows, places: Places) -> Weights:
        """Each kept key's share."""
        return normalised(scores, mask & (scores >= rows.threshold), rows.lse)

    def as_threshold(self) -> Threshold:
        """The softmax of the best keys."""
        return Threshold(self.count, rows=lambda threshold, lse: TopRows(lse, threshold))

    def stops_gradient(self) -> str | None:
        """One key alone has the whole weight, whatever its score."""
        if self.count > 1:
            return None
        return (
            'select = "top_k" with count = 1 gives one key the whole weight, whatever its score, '
            "and so the scores have no gradient. Take count = 2 or more."
        )


def _rounding(dtype: torch.dtype) -> float:
    """The relative difference of tied scores; half precision is rounded once, after the sum."""
    info = torch.finfo(dtype)
    return info.eps * (1 if info.bits == 16 else ROUNDING)
