"""Local monotonic selection: look around the position that matches the query's own.

    a[i,j] = softmax over |j - p[i]| <= D of e[i,j],   p[i] = min(i, S - 1)

Paper: Luong, Pham & Manning 2015, section 3.2 (local-m).
Cost: time and memory O(q · (2D + 1)) on the windowed path; normaliser and centre are kept per row.
"""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.links import LocalRows, Selection, log_normaliser, normalised
from regard.attention.shapes import Mask, Queries, RowNumber, Scores, Weights
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class LocalMonotonicSelection(nn.Module, Selection):
    """A softmax inside a window that moves one key per query, and stops at the last key."""

    is_movable = True

    def __init__(self, dims: Dims | None = None, *, half_width: int = 10) -> None:
        super().__init__()
        check_least("local_monotonic: half_width", half_width, 0)
        self.half_width = half_width

    def extra_repr(self) -> str:
        """Half the window."""
        return f"half_width={self.half_width}"

    def centre(self, query: Queries, places: Places, extent: Int[Tensor, "*be #q 1"]) -> RowNumber:
        """The query's own position, or the last key's once the keys are used up."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        return places.query.minimum(extent - 1).clamp(min=0).to(dtype)

    def settle(self, scores: Scores, mask: Mask, centre: RowNumber, places: Places) -> LocalRows:
        """Centre and normaliser."""
        inside = mask & ((places.key - centre).abs() <= self.half_width)
        return LocalRows(log_normaliser(scores, inside), centre.expand(*scores.shape[:-1], 1))

    def weigh(self, scores: Scores, mask: Mask, rows: LocalRows, places: Places) -> Weights:
        """Each key's share inside the window."""
        inside = mask & ((places.key - rows.centre).abs() <= self.half_width)
        return normalised(scores, inside, rows.lse)

    def as_window(self) -> "LocalMonotonicSelection":
        """Itself: no key outside the window counts."""
        return self

    def as_faded_softmax(self) -> float:
        """A softmax that does not fade inside its window."""
        return 0.0
