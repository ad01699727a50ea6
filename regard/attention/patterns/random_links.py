"""Random links: each block of queries sees a few blocks of keys drawn once from a seed.

    visible[i,j] = block(j) in R(block(i)),   R(a) = n_random blocks b of least hash(seed, a, b)

Paper: Zaheer et al. 2020 (BigBird), section 2: links as in an Erdős-Rényi graph.
Cost: time O(n · n_random · block · d), memory O(n · n_random · block).
"""

from contextlib import nullcontext
from functools import lru_cache
from operator import index
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from regard.attention.links import Grid, Pattern
from regard.attention.masks import any_in_blocks
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places

CPU = torch.device("cpu")


@final
class RandomLinksPattern(Pattern):
    """A few blocks, the same in training and evaluation, on every machine and torch version.

    A causal one draws from the past only, and a row's blocks then never depend on the length.
    Blocks of which `besides` shows something already are not drawn.
    """

    def __init__(
        self,
        dims: Dims | None = None,
        *,
        block: int = 64,
        n_random: int = 3,
        seed: int = 0,
        is_causal: bool = False,
        besides: Pattern | None = None,
    ) -> None:
        if block < 1 or n_random < 0:
            wanted = "block must be at least 1 and n_random at least 0"
            raise SettingError(f"random_links: {wanted}, got {block} and {n_random}.")
        self.block, self.n_random, self.seed = block, n_random, seed
        self.is_causal, self.besides = is_causal, besides

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True where the key's block was drawn for the query's block."""
        # a compiler takes the links for a constant, made anew when one of the settings changes
        links = self.links_on(
            index(places.length),
            places.key.device,
            (self.block, self.n_random, self.seed, self.is_causal),
        )
        last = len(links) - 1
        # the position of a token that is nowhere is before or after all others
        row = (places.query // self.block).clamp(0, last)
        return links[row, (places.key // self.block).clamp(max=last)]

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks that hold a drawn block."""
        links = self.links(grid.length)
        first, last = torch.tensor(0), torch.tensor(len(links) - 1)
        rows = [(edge // self.block).clamp(first, last) for edge in grid[:4]]
        return any_in_blocks(links, Grid(rows[0], rows[1], rows[2], rows[3], grid.length))

    def links(self, length: int) -> Bool[Tensor, "nb nb"]:
        """True where a block of keys (column) was drawn for a block of queries (row)."""
        return _drawn(self, length, CPU)

    def as_text(self) -> str | None:
        """Name and settings, unless it draws besides another pattern."""
        if self.besides is not None:
            return None
        is_causal = "true" if self.is_causal else "false"
        return (
            f"random_links:block={self.block},n_random={self.n_random},seed={self.seed},"
            f"is_causal={is_causal}"
        )

    def links_on(
        self, length: int, device: torch.device, settings: tuple[int, ...]
    ) -> Bool[Tensor, "nb nb"]:
        """The links on a device; `settings` is what a compiler compares before it runs a graph."""
        # torch.export traces with tensors that have no numbers, from which nothing can be drawn
        with _disable_current_modes() if torch.compiler.is_compiling() else nullcontext():
            return _drawn(self, length, device)


# as torch.compiler.assume_constant_result does, which loads torch's compiler: another second
RandomLinksPattern.links_on._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=8)
def _drawn(pattern: RandomLinksPattern, length: int, device: torch.device) -> Bool[Tensor, "nb nb"]:
    """The drawn blocks: a pure function, cached because every chunk of a map needs it."""
    block, n_blocks = pattern.block, max(1, -(-length // pattern.block))
    row, column = torch.arange(n_blocks)[:, None], torch.arange(n_blocks)[None, :]
    allowed = column < row if pattern.is_causal else row != column
    if pattern.besides is not None:
        # a causal row counts whole blocks, so that its links are the same at every length
        whole = pattern.is_causal
        find, until = (_touched, n_blocks * block) if whole else (_shown, length)
        allowed = allowed & ~find(pattern.besides, block, until)
    ranks = _hash(pattern.seed, row, column).masked_fill(~allowed, torch.iinfo(torch.int64).max)
    best = ranks.topk(min(pattern.n_random, n_blocks), largest=False).indices
    return (torch.zeros_like(allowed).scatter(-1, best, value=True) & allowed).to(device)


def _shown(besides: Pattern, block: int, length: int) -> Bool[Tensor, "nb nb"]:
    """Blocks of keys that the queries of each block see already, in whole or in part.

    A query that sees part of every block needs no link. If it shares its block with queries that
    do not, as a global one may if blocks do not divide the length, only those count.
    """
    shown = _touched(besides, block, length).clone()
    starts, ends = _blocks(block, length)
    for row in shown.all(-1).nonzero().flatten().tolist():
        queries = torch.arange(row * block, int(ends[0, row]) + 1)[:, None]
        each = besides.touches(Grid(queries, queries, starts, ends, length))
        needy = each[~each.all(-1)]
        if len(needy):
            shown[row] = needy.any(0)
    return shown


def _touched(besides: Pattern, block: int, length: int) -> Bool[Tensor, "nb nb"]:
    """Blocks of keys of which some query of each block may see something."""
    starts, ends = _blocks(block, length)
    return besides.touches(Grid(starts.T, ends.T, starts, ends, length))


def _blocks(block: int, length: int) -> tuple[Int[Tensor, "1 nb"], Int[Tensor, "1 nb"]]:
    """The first and last position of each block."""
    starts = torch.arange(0, max(1, length), block)[None]
    return starts, (starts + block).clamp(max=length) - 1


def _hash(seed: int, row: Int[Tensor, "nb 1"], column: Int[Tensor, "1 nb"]) -> Int[Tensor, "nb nb"]:
    """A multiply-xorshift hash: well mixed, and free of any generator's state."""
    x = (row * 0x9E3779B1 + column * 0x85EBCA77 + seed * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    for factor in (0x5851F42D, 0x14057B7F, 0x2545F491):
        x = ((x ^ (x >> 29)) * factor) & 0x7FFFFFFFFFFFFFF
    return x
