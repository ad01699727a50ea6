"""BigBird as the usual library runs its published weights: each deviation has a switch.

    visible[i,j] = |a - b| <= 1  or  a or b the first or the last block        a, b: blocks of i, j
    e[i,j] += log(1 + n_random)  where b is the first block and a is neither first nor last

Hugging Face's library has no random blocks outside training: instead, every row counts the first
block `n_random` times more, which is the second line above. And it reads a short text, of at most
(5 + 2 n_random) blocks, under the full pattern.

Paper: Zaheer et al. 2020, section 2 and appendix D; papers differ, see docs/importing.md.
Cost: as big_bird, and no random blocks.
"""

import math
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.links import Grid, Pattern, Relation
from regard.attention.masks import FULL, AnyOf
from regard.attention.patterns.big_bird import NeighbourBlocks
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


@final
class EndBlocks(Pattern):
    """The first and the last block see all and are seen by all; the last may be shorter."""

    def __init__(self, block: int) -> None:
        self.block = block

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True where either side stands in one of the two."""
        last = (places.length - 1) // self.block
        row, column = places.query // self.block, places.key // self.block
        return (row == 0) | (row == last) | (column == 0) | (column == last)

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks with a row or a column of the two."""
        begin = (grid.length - 1) // self.block * self.block
        rows = (grid.q_first < self.block) | (grid.q_last >= begin)
        return rows | (grid.k_first < self.block) | (grid.k_last >= begin)


@final
class PublishedBigBirdPattern(Pattern):
    """Neighbouring blocks, and the first and the last; short texts see everything.

    Args:
        dims: not needed.
        block: positions in a block.
        n_random: random blocks of each row in training.
        has_random_links: draw the random blocks once from a seed, as the paper has them, in
            training and evaluation alike; False is what the library does when it evaluates.
        is_full_when_short: whether a text of at most 5 + 2 n_random blocks sees everything.
            seed: seed of the random blocks.
    """

    def __init__(
        self,
        dims: Dims | None = None,
        *,
        block: int = 64,
        n_random: int = 3,
        has_random_links: bool = False,
        is_full_when_short: bool = True,
        seed: int = 0,
    ) -> None:
        if block < 1 or n_random < 0:
            raise SettingError(
                "published_big_bird: block must be at least 1 and n_random at least 0, got "
                f"{block} and {n_random}."
            )
        self.block, self.n_random = block, n_random
        self.has_random_links, self.is_full_when_short = has_random_links, is_full_when_short
        seen: Pattern = AnyOf(NeighbourBlocks(block), EndBlocks(block))
        links = RandomLinksPattern(block=block, n_random=n_random, seed=seed, besides=seen)
        self.union = AnyOf(seen, links) if has_random_links else seen

    def is_short(self, length: int) -> bool:
        """Whether a text of this length sees everything."""
        return self.is_full_when_short and length <= (5 + 2 * self.n_random) * self.block

    def visible(self, places: Places) -> Bool[Tensor, "*b #q #k"]:
        """True where one of the patterns says so."""
        return (FULL if self.is_short(places.length) else self.union).visible(places)

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks that one of the patterns touches."""
        return (FULL if self.is_short(grid.length) else self.union).touches(grid)


@final
class FirstBlockRelation(Relation):
    """Rows between the first and the last block count the first block several times more.

    The pattern decides how many times, and in which texts.
    """

    reads_query = False

    def __init__(self, pattern: PublishedBigBirdPattern) -> None:
        self.pattern = pattern

    def to_scores(self, query: Float[Tensor, "*b q d"], places: Places) -> Float[Tensor, "q k"]:
        """The logarithm of how often a key counts."""
        return self.as_bias(places).to(query.dtype)

    def as_bias(self, places: Places) -> Float[Tensor, "q k"]:
        """The same bias, as it depends on the places alone."""
        block, last = self.pattern.block, (places.length - 1) // self.pattern.block
        row, column = places.query // block, places.key // block
        again = (column == 0) & (row != 0) & (row != last)
        if self.pattern.is_short(places.length):
            again = again & False
        return torch.where(again, math.log1p(self.pattern.n_random), 0.0)
