"""BigBird: neighbours, a few global blocks and a few random blocks, so that two hops reach all.

    visible[i,j] = |a - b| <= 1  or  i or j among the first or last block positions  or  b in R(a)
    a, b: the blocks of i and j

Paper: Zaheer et al. 2020, section 2 and appendix D (internal global tokens).
Cost: time O(n · block · (5 + n_random) · d), memory O(n · block · (5 + n_random)).
"""

from typing import final

from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import Grid, Pattern
from regard.attention.masks import AnyOf
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.dims import Dims
from regard.errors import check_least
from regard.places import Places


@final
class NeighbourBlocks(Pattern):
    """A query sees its own block and the block on either side."""

    def __init__(self, block: int) -> None:
        self.block = block

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for keys at most one block away."""
        return (places.key // self.block - places.query // self.block).abs() <= 1

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Stretches that come within one block of each other."""
        after = grid.k_first // self.block - grid.q_last // self.block
        before = grid.q_first // self.block - grid.k_last // self.block
        return after.maximum(before) <= 1


@final
class BigBirdPattern(Pattern):
    """The union of three small patterns, drawn once from a seed.

    The first and the last block are global; a row has `n_random` random blocks besides those it
    sees already, or all that are left. A causal one sees the past only: it has no last global block
    and draws from the past, so that what a row sees never depends on the length.
    """

    def __init__(
        self,
        dims: Dims | None = None,
        *,
        block: int = 64,
        n_random: int = 3,
        seed: int = 0,
        is_causal: bool = False,
    ) -> None:
        check_least("big_bird: block", block, 1)
        self.block, self.n_random, self.seed, self.is_causal = block, n_random, seed, is_causal
        near = NeighbourBlocks(block)
        ends = GlobalTokensPattern(first=block, last=0 if is_causal else block)
        seen = AnyOf(near, ends)
        links = RandomLinksPattern(
            block=block, n_random=n_random, seed=seed, is_causal=is_causal, besides=seen
        )
        self.union = AnyOf(near, ends, links)
        self.causal = CausalPattern()

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True where one of the three patterns shows the key (if causal, not in the future)."""
        seen = self.union.visible(places)
        return seen & self.causal.visible(places) if self.is_causal else seen

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks that one of the three patterns touches."""
        touched = self.union.touches(grid)
        return touched & self.causal.touches(grid) if self.is_causal else touched

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        is_causal = "true" if self.is_causal else "false"
        return (
            f"big_bird:block={self.block},n_random={self.n_random},seed={self.seed},"
            f"is_causal={is_causal}"
        )

    def still_seen(self, length: int) -> tuple[range, ...] | None:
        """The first block and the last two; all, if a later row may draw any block at random."""
        if self.n_random or not self.is_causal:
            return None
        near = max(0, length // self.block - 1) * self.block
        return range(min(self.block, length)), range(near, length)
