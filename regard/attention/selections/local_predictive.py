"""Local predictive selection: the query predicts where to look; weights fade with distance.

    a[i,j] = softmax over |j - floor(p[i])| <= D of e[i,j]  ·  exp(-(j - p[i])² / 2σ²)
    p[i] = S sigmoid(v · tanh(W q[i])),   σ = D / 2

Paper: Luong, Pham & Manning 2015, equations 9 and 10 (local-p).
Cost: time and memory O(q · (2D + 1)) on the windowed path; normaliser and centre are kept per row.
"""

import math
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from regard.attention.links import LocalRows, Selection, log_normaliser, normalised, wide
from regard.attention.shapes import Mask, Queries, RowNumber, Scores, Weights
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import SettingError, check_least
from regard.places import Places


@final
class LocalPredictiveSelection(nn.Module, Selection):
    """A softmax in a predicted window, then a Gaussian; rows sum to less than one, as printed."""

    def __init__(self, dims: Dims, *, half_width: int = 10, sigma: float | None = None) -> None:
        super().__init__()
        check_least("local_predictive: half_width", half_width, 1)
        if sigma is not None and not 0 < sigma < math.inf:
            raise SettingError(f"local_predictive: sigma must be a number above 0, got {sigma}.")
        self.half_width = half_width
        self._sigma = float(sigma or half_width / 2).as_integer_ratio()
        bound = dims.query**-0.5
        self.widths = Widths(dims.n_heads, dims.query)
        self.W = nn.Parameter(torch.empty(dims.n_heads, dims.query, dims.query))
        self.v = nn.Parameter(torch.empty(dims.n_heads, dims.query, 1))
        nn.init.uniform_(self.W, -bound, bound)
        nn.init.uniform_(self.v, -bound, bound)

    @property
    def sigma(self) -> float:
        """How far the Gaussian reaches; kept as two whole numbers, a compiler's constants."""
        over, under = self._sigma
        return over / under

    def extra_repr(self) -> str:
        """Half the window, and how far the Gaussian reaches."""
        return f"half_width={self.half_width}, sigma={self.sigma:g}"

    def centre(self, query: Queries, places: Places, extent: Int[Tensor, "*be #q 1"]) -> RowNumber:
        """A real position between 0 and the number of keys."""
        # positions of long sequences do not fit half precision
        with torch.autocast(query.device.type, enabled=False):
            return extent * ((wide(query) @ wide(self.W)).tanh() @ wide(self.v)).sigmoid()

    def settle(self, scores: Scores, mask: Mask, centre: RowNumber, places: Places) -> LocalRows:
        """Centre and normaliser; the window's edges have no gradient."""
        return LocalRows(log_normaliser(scores, mask & self._inside(centre, places)), centre)

    def weigh(self, scores: Scores, mask: Mask, rows: LocalRows, places: Places) -> Weights:
        """Each key's share inside the window, faded by its distance from the centre."""
        share = normalised(scores, mask & self._inside(rows.centre, places), rows.lse)
        fade = (-((places.key - rows.centre) ** 2) / (2 * self.sigma**2)).exp()
        return share * fade.to(share.dtype)

    def _inside(self, centre: RowNumber, places: Places) -> Bool[Tensor, "b h q k"]:
        return (places.key - centre.floor()).abs() <= self.half_width

    def as_window(self) -> "LocalPredictiveSelection":
        """Itself: no key outside the window counts."""
        return self

    def as_faded_softmax(self) -> float:
        """The rate of the Gaussian."""
        return 1 / (2 * self.sigma**2)
