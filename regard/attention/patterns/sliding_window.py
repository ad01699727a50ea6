"""Sliding window: a query sees its neighbours on both sides.

    visible[i,j] = |j - i| <= size

Paper: Beltagy, Peters & Cohan 2020 (Longformer), section 3.1; the local part of BigBird.
Cost: time O(n · size · d), memory O(n · size); a stack of L layers reaches L · size positions.
"""

from typing import final

from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import Grid, Pattern
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class SlidingWindowPattern(Pattern):
    """Neighbours up to `size` positions away. Join it with causal for a window into the past."""

    is_movable, needs_length = True, False

    def __init__(self, dims: Dims | None = None, *, size: int = 256) -> None:
        check_least("sliding_window: size", size, 0)
        self.size = size

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for keys at most `size` away."""
        return (places.key - places.query).abs() <= self.size

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks whose nearest ends are at most `size` apart."""
        apart = (grid.k_first - grid.q_last).maximum(grid.q_first - grid.k_last)
        return apart <= self.size

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        return f"sliding_window:size={self.size}"

    def still_seen(self, length: int) -> tuple[range, ...]:
        """The last `size` keys."""
        return (range(max(0, length - self.size), length),)
