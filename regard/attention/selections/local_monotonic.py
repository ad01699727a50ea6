"""Local monotonic selection: look around the position that matches the query's own.

    a[i,j] = softmax over |j - p[i]| <= D of e[i,j],   p[i] = min(i, S - 1)

Paper: Luong, Pham & Manning 2015, section 3.2 (local-m).
Cost: time and memory O(q · (2D + 1)) on the windowed path; normaliser and centre are kept per row.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.links import Selection, extent_of, log_normaliser, normalised
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


class LocalRows(NamedTuple):
    """The window's centre, and the logarithm of the normaliser inside it."""

    lse: Float[Tensor, "*b q 1"]
    centre: Float[Tensor, "*b q 1"]


@final
class LocalMonotonicSelection(nn.Module, Selection):
    """A softmax inside a window that moves one key per query, and stops at the last key."""

    is_movable = True

    def __init__(self, dims: Dims | None = None, *, half_width: int = 10) -> None:
        super().__init__()
        if half_width < 0:
            raise SettingError(f"local_monotonic: half_width must be at least 0, got {half_width}.")
        self.half_width = half_width

    def centre(
        self, query: Float[Tensor, "*b q d"], places: Places, extent: Int[Tensor, "*be #q 1"]
    ) -> Float[Tensor, "*be #q 1"]:
        """The query's own position, or the last key's once the keys are used up."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        return places.query.minimum(extent - 1).clamp(min=0).to(dtype)

    def settle(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        centre: Float[Tensor, "*bc #q 1"],
        places: Places,
    ) -> LocalRows:
        """Centre and normaliser."""
        inside = mask & ((places.key - centre).abs() <= self.half_width)
        return LocalRows(log_normaliser(scores, inside), centre.expand(*scores.shape[:-1], 1))

    def summarise(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        query: Float[Tensor, "*b q d"],
        places: Places,
    ) -> LocalRows:
        """Centre and normaliser of each row's window."""
        centre = self.centre(query, places, extent_of(mask, places))
        return self.settle(scores, mask, centre, places)

    def weigh(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        rows: LocalRows,
        places: Places,
    ) -> Float[Tensor, "*b q k"]:
        """Each key's share inside the window."""
        inside = mask & ((places.key - rows.centre).abs() <= self.half_width)
        return normalised(scores, inside, rows.lse)

    def as_window(self) -> "LocalMonotonicSelection":
        """Itself: no key outside the window counts."""
        return self
