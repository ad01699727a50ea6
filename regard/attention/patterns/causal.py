"""Causal pattern: a query sees itself and what came before it.

    visible[i,j] = j <= i

Paper: Vaswani et al. 2017, section 3.2.3.
Cost: time O(q · k · d / 2), memory O(q) fused, O(q · k) dense.
"""

from typing import final

from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import Grid, KernelMask, Pattern
from regard.dims import Dims
from regard.places import Places


@final
class CausalPattern(Pattern):
    """No query sees a later key."""

    is_movable, needs_length = True, False

    def __init__(self, dims: Dims | None = None) -> None:
        pass

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for keys up to the query's own position."""
        return places.key <= places.query

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks that begin before the last query of the row."""
        return grid.k_first <= grid.q_last

    def as_kernel(self) -> KernelMask:
        """Kernels know this one by name."""
        return KernelMask(is_causal=True, valid=None)

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        return "causal"
