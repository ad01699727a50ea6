"""Places: positions of queries and keys in the sequence and, for parsed text, in the tree.

Positions are always passed, never inferred from a tensor's length, so that a cache, a window and
a tile of a map mean the same positions as the whole matrix.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

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
        # a CUDA graph cannot read a number on the host; an earlier batch of this shape was checked
        is_capturing = heads.is_cuda and torch.cuda.is_current_stream_capturing()
        if not is_capturing and bool(((heads < ROOT) | (heads >= n)).any()):
            raise ShapeError(
                f"tree: heads must lie in -1..{n - 1}, got {heads.min()}..{heads.max()}."
            )
        depth, above = torch.zeros_like(heads), heads
        for _ in range(n):
            depth = depth + (above != ROOT)
            above = torch.where(above == ROOT, ROOT, heads.gather(-1, above.clamp(min=0)))
        if not is_capturing and bool((above != ROOT).any()):
            raise ShapeError("tree: the heads form a circle; every word must reach a root (-1).")
        return cls(depth, heads)

    def part(self, rows: Int[Tensor, " r"], length: int) -> "Tree":
        """The trees of some rows, cut to the first `length` words."""
        return Tree(self.depth[rows, :length], self.parent[rows, :length])


class Counted(NamedTuple):
    """Consecutive positions; torch.compile would recompile a `range` for every length."""

    start: int
    stop: int


@final
class Places:
    """Positions of queries and keys, shaped so that they broadcast against `b h q k`.

    Indices of consecutive positions are made on `device` when they are read: kernels need none.
    `length` is the number of keys in the whole sequence, of which `key` may be a part; `past` is
    the number of keys before the first query if both are without gaps, else None.
    """

    def __init__(
        self,
        query: Int[Tensor, "*bq q 1"] | Counted,
        key: Int[Tensor, "*bk qk k"] | Counted,
        length: int,
        past: int | None = None,
        tree: Tree | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._query, self._key, self._device = query, key, device
        self.length, self.past, self.tree = length, past, tree

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
        return cls(Counted(past, past + n_queries), Counted(0, n_keys), n_keys, past, tree, device)

    @property
    def query(self) -> Int[Tensor, "*bq q 1"]:
        """The positions of the queries."""
        if isinstance(self._query, Counted):
            self._query = torch.arange(*self._query, device=self._device)[:, None]
        return self._query

    @property
    def key(self) -> Int[Tensor, "*bk qk k"]:
        """The positions of the keys."""
        if isinstance(self._key, Counted):
            self._key = torch.arange(*self._key, device=self._device)[None, :]
        return self._key

    @property
    def device(self) -> torch.device:
        """Where the positions are, or will be when they are read."""
        if isinstance(self._key, Counted):
            return self._device or torch.get_default_device()
        return self._key.device

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        query = self._query
        return query.stop - query.start if isinstance(query, Counted) else query.shape[-2]

    @property
    def offsets(self) -> Int[Tensor, "*b q k"]:
        """Key position minus query position."""
        return self.key - self.query

    def tile(self, rows: slice, columns: slice) -> "Places":
        """The places of one rectangle of the map."""
        query, key = self.query[..., rows, :], self.key[..., columns]
        return Places(query, key, self.length, tree=self.tree)

    def at_keys(self, key: Int[Tensor, "*bk qk w"]) -> "Places":
        """The same queries with other keys, which may differ from row to row."""
        return Places(self.query, key, self.length, tree=self.tree)

    def repeated(self, count: int) -> "Places":
        """The queries repeated in each row; a single row broadcasts and is left as it is."""
        if self.n_queries == 1:
            return self
        return Places(self.query.repeat(count, 1), self.key, self.length, tree=self.tree)
