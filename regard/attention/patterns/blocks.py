"""Blocks: the sequence is cut into blocks, and a query sees its own block.

    visible[i,j] = floor(i / size) = floor(j / size)

Paper: Liu et al. 2018 (local attention of T-DMCA, blocks of 256), section 4.2.3.
Cost: time O(n · size · d), memory O(n · size); no two blocks ever meet in this layer.
"""

from typing import final

from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import Grid, Pattern
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class BlocksPattern(Pattern):
    """A query sees the keys of its own block. Join it with causal for T-DMCA's local layer."""

    needs_length = False

    def __init__(self, dims: Dims | None = None, *, size: int = 256) -> None:
        check_least("blocks: size", size, 1)
        self.size = size

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for keys of the query's block."""
        return places.key // self.size == places.query // self.size

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Stretches that share a block."""
        starts_before = grid.k_first // self.size <= grid.q_last // self.size
        ends_after = grid.k_last // self.size >= grid.q_first // self.size
        return starts_before & ends_after

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        return f"blocks:size={self.size}"

    def still_seen(self, length: int) -> tuple[range, ...]:
        """The keys of the block that is not full yet."""
        return (range(length // self.size * self.size, length),)
