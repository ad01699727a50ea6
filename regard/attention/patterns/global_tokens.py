"""Global tokens: a few positions see everything and are seen by everything.

    visible[i,j] = i < first  or  j < first  or  i >= n - last  or  j >= n - last

Paper: Zaheer et al. 2020 (BigBird, internal global tokens), section 2; Beltagy et al. 2020.
Cost: time O(n · (first + last) · d), memory O(n · (first + last)).
"""

from typing import final

from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import Grid, Pattern
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


@final
class GlobalTokensPattern(Pattern):
    """The first and last few positions are linked with every other one.

    With `last = 0` the pattern does not depend on the length, as causal use needs.
    """

    cannot_write = (
        "the first tokens would see the future; take big_bird, whose first block is global for "
        "those behind it"
    )

    def __init__(self, dims: Dims | None = None, *, first: int = 64, last: int = 0) -> None:
        if first < 0 or last < 0:
            raise SettingError(f"global_tokens: counts must be at least 0, got {first} and {last}.")
        self.first, self.last = first, last

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True where either side is a global position."""
        end = places.length - self.last
        query_is_global = (places.query < self.first) | (places.query >= end)
        return query_is_global | (places.key < self.first) | (places.key >= end)

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks with a global row or column."""
        end = grid.length - self.last
        row_is_global = (grid.q_first < self.first) | (grid.q_last >= end)
        return row_is_global | (grid.k_first < self.first) | (grid.k_last >= end)

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        return f"global_tokens:first={self.first},last={self.last}"
