"""Where queries and keys stand: indices in the sequence and, for parsed text, in the tree.

Positions are always passed, never guessed from a tensor's length, so that a cache, a window and
a tile of a map mean the same positions as the whole matrix.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import ShapeError

ROOT = -1
"""The head of a root word."""


@dataclass(frozen=True)
class Tree:
    """Dependency trees of a batch: how deep each word hangs, and from which word."""

    depth: Int[Tensor, "b n"]
    parent: Int[Tensor, "b n"]

    @classmethod
    def from_heads(cls, heads: Int[Tensor, "b n"]) -> "Tree":
        """Read trees from the index of every word's head; -1 marks a root (and padding)."""
        n = heads.shape[-1]
        if bool(((heads < ROOT) | (heads >= n)).any()):
            raise ShapeError(
                f"tree: heads must lie in -1..{n - 1}, got {heads.min()}..{heads.max()}."
            )
        depth, above = torch.zeros_like(heads), heads
        for _ in range(n):
            depth = depth + (above != ROOT)
            above = torch.where(above == ROOT, ROOT, heads.gather(-1, above.clamp(min=0)))
        if bool((above != ROOT).any()):
            raise ShapeError("tree: the heads form a circle; every word must reach a root (-1).")
        return cls(depth, heads)


@dataclass(frozen=True)
class Places:
    """Positions of queries and keys, shaped so that they broadcast against `b h q k`."""

    query: Int[Tensor, "*bq q 1"]
    key: Int[Tensor, "*bk qk k"]
    length: int
    """Number of keys in the whole sequence, of which `key` may name a part."""
    past: int | None = None
    """How many keys stand before the first query, where both run without gaps; else None."""
    tree: Tree | None = None

    @classmethod
    def between(
        cls,
        n_queries: int,
        n_keys: int,
        *,
        past: int = 0,
        tree: Tree | None = None,
        device: torch.device | None = None,
    ) -> "Places":
        """Queries counted from `past` on against keys counted from 0."""
        query = torch.arange(past, past + n_queries, device=device)[:, None]
        key = torch.arange(n_keys, device=device)[None, :]
        return cls(query, key, n_keys, past, tree)

    @property
    def offsets(self) -> Int[Tensor, "*b q k"]:
        """Key position minus query position."""
        return self.key - self.query

    def tile(self, rows: slice, columns: slice) -> "Places":
        """The places of one rectangle of the map."""
        return replace(self, query=self.query[..., rows, :], key=self.key[..., columns], past=None)

    def at_keys(self, key: Int[Tensor, "*bk qk w"]) -> "Places":
        """The same queries looking at other keys, row by row if need be."""
        return replace(self, key=key, past=None)
