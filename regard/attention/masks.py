"""Masks that belong to a batch, and how masks and patterns are joined.

    padding(lengths)          keys that exist
    given(matrix)             any boolean matrix
    all_of(a, b, …)           pairs that every part allows
    any_of(a, b, …)           pairs that at least one part allows

True = may attend. Masks stay symbolic until the dense path makes boolean tensors of them.
"""

from collections.abc import Iterable
from functools import reduce
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.links import Grid, KernelMask, Pattern, keys_that_exist
from regard.attention.patterns.full import FullPattern
from regard.errors import SettingError, ShapeError
from regard.places import Places

FULL = FullPattern()


@final
class Padding(Pattern):
    """Only keys that exist are visible."""

    def __init__(self, valid: Bool[Tensor, "b k"]) -> None:
        self.valid = valid

    def extra_repr(self) -> str:
        """How many sentences of how many keys."""
        return " × ".join(map(str, self.valid.shape))

    def visible(self, places: Places) -> Bool[Tensor, "b hk qk k"]:
        """True for keys that exist."""
        keys_that_exist(self.valid, places.length)
        batch = torch.arange(len(self.valid), device=self.valid.device).view(-1, 1, 1, 1)
        key = places.key.to(self.valid.device)
        return self.valid[batch, key.view(*(1,) * (4 - key.dim()), *key.shape)]

    def as_kernel(self) -> KernelMask:
        """Kernels know which keys exist."""
        return KernelMask(is_causal=False, valid=self.valid)


@final
class Given(Pattern):
    """A boolean matrix of the caller, indexed by the positions of queries and keys."""

    def __init__(self, matrix: Bool[Tensor, "*b n k"]) -> None:
        self.matrix = matrix

    def extra_repr(self) -> str:
        """Its shape."""
        return " × ".join(map(str, self.matrix.shape))

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """The matrix at these places."""
        return at_places(self.matrix, places)

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """True where the matrix has a True inside the block."""
        begin, end = int(grid.q_first.min()), int(grid.q_last.max()) + 1
        n_keys = int(grid.k_last.max()) + 1
        check_reach(self.matrix, end, n_keys)
        # a block of queries looks at its own rows alone
        rows = slice(begin, end) if self.matrix.shape[-2] > 1 else slice(None)
        some = self.matrix[..., rows, :n_keys]
        flat = some.reshape(-1, *some.shape[-2:]).any(0).cpu().expand(end - begin, n_keys)
        own = grid._replace(q_first=grid.q_first - begin, q_last=grid.q_last - begin)
        return any_in_blocks(flat, own)


@final
class AllOf(Pattern):
    """A pair is visible if it is visible in every part."""

    def __init__(self, *parts: Pattern) -> None:
        self.parts = self.every = parts

    def extra_repr(self) -> str:
        """The parts."""
        return ", ".join(map(repr, self.parts))

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """The intersection."""
        return reduce(torch.logical_and, [part.visible(places) for part in self.parts])

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """A block that one part empties is empty."""
        return reduce(torch.logical_and, [part.touches(grid) for part in self.parts])

    def as_kernel(self) -> KernelMask | None:
        """Kernels take a causal mask and a padding mask together."""
        known = [part.as_kernel() for part in self.parts]
        masks = [mask for mask in known if mask is not None]
        if len(masks) < len(self.parts):
            return None
        return KernelMask(any(mask.is_causal for mask in masks), _all(mask.valid for mask in masks))


@final
class AnyOf(Pattern):
    """A pair is visible if it is visible in at least one part."""

    def __init__(self, *parts: Pattern) -> None:
        self.parts = parts

    def extra_repr(self) -> str:
        """The parts."""
        return ", ".join(map(repr, self.parts))

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """The union."""
        return reduce(torch.logical_or, [part.visible(places) for part in self.parts])

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """A block that one part touches is touched."""
        return reduce(torch.logical_or, [part.touches(grid) for part in self.parts])


def at_places(matrix: Tensor, places: Places) -> Tensor:
    """The numbers of a matrix `*b n k`, which has a row and a column for each position."""
    n_queries = 0 if places.past is None else places.past + places.query.shape[-2]
    check_reach(matrix, n_queries, places.length)
    query = places.query.clamp(max=matrix.shape[-2] - 1)
    key = places.key.clamp(max=matrix.shape[-1] - 1)
    if places.key.dim() == 2:
        return matrix[..., query, key]
    matrix = matrix.reshape(*(1,) * (4 - matrix.dim()), *matrix.shape)
    sentence, head = (torch.arange(n, device=matrix.device) for n in matrix.shape[:2])
    return matrix[sentence[:, None, None, None], head[:, None, None], query, key]


def check_is_pattern(who: str, given: object) -> None:
    """Refuse what is no pattern: a name, a class or a list."""
    # a look at the bases is quicker than a protocol's own check of every member
    if Pattern in type(given).__mro__:
        return
    if isinstance(given, type) or not isinstance(given, Pattern):
        is_mask = who == "mask"
        matrices = ", a boolean matrix (True = may attend) or a matrix of floats" * is_mask
        got = f"the class {given.__name__}" if isinstance(given, type) else f"{given!r:.40}"
        remedy = "torch.tensor(mask)" if is_mask else f"{who}(one, other) with two of them"
        raise SettingError(
            f"{who}: expected a pattern{matrices}, got {got}. Write CausalPattern() or another "
            f"object of regard.parts, or {remedy}."
        )


def check_reach(matrix: Tensor, n_queries: int, n_keys: int) -> None:
    """Refuse a matrix without a row or a column for every position."""
    if matrix.dim() < 2:
        raise ShapeError(
            f"mask: expected a matrix, a row for each query and a column for each key, got shape "
            f"{tuple(matrix.shape)}. mask[None] is one row for all queries."
        )
    rows, columns = matrix.shape[-2:]
    if 1 < rows < n_queries or 1 < columns < n_keys:
        raise ShapeError(
            f"mask: the matrix has {rows} rows and {columns} columns, but queries reach "
            f"position {n_queries - 1} and keys {n_keys - 1}. Give it a row and a column for "
            "each position, those of a cache included; one row or column serves all."
        )


def padding(lengths: Int[Tensor, " b"] | Bool[Tensor, "b k"], n_keys: int | None = None) -> Padding:
    """Hide the keys that only fill up the batch.

    `lengths` counts each sentence's real keys, or is True for every real key; `n_keys` is the
    padded length, by default the longest sentence's.
    """
    if lengths.dtype == torch.bool:
        return Padding(lengths)
    longest = int(lengths.max()) if n_keys is None else n_keys
    return Padding(torch.arange(longest, device=lengths.device) < lengths[:, None])


def given(matrix: Bool[Tensor, "*b n k"]) -> Given:
    """Use a boolean matrix as a mask; True = may attend."""
    if matrix.dtype != torch.bool:
        raise ShapeError(
            f"mask: expected a boolean matrix (True = may attend), got {matrix.dtype}. "
            "Write mask.bool(), or mask == 0 if yours marks what is blocked. A matrix of floats is "
            "added to the scores where it is the whole mask of a call."
        )
    return Given(matrix)


def is_full(mask: Pattern | Tensor) -> bool:
    """Whether a mask is known to hide nothing; a matrix is not looked through."""
    known = None if isinstance(mask, Tensor) else mask.as_kernel()
    return known is not None and not known.is_causal and known.valid is None


def all_of(*parts: Pattern) -> Pattern:
    """The pairs that every part allows."""
    if not torch.compiler.is_compiling():
        for part in parts:
            check_is_pattern("all_of", part)
    flat = [one for part in parts for one in (part.every or (part,))]
    rest = [part for part in flat if not is_full(part)]
    if len(rest) <= 1:
        return rest[0] if rest else FULL
    return AllOf(*rest)


def split_padding(mask: Pattern) -> tuple[tuple[Pattern, ...], Bool[Tensor, "b k"] | None]:
    """The parts of a mask that depend on both places, and the padding mask of the other parts."""
    linking: list[Pattern] = []
    valid: list[Tensor] = []
    for part in _single(mask):
        known = part.as_kernel()
        if known is None or known.is_causal or known.valid is None:
            linking.append(part)
        else:
            valid.append(known.valid)
    return tuple(linking), _all(valid)


def _single(mask: Pattern) -> tuple[Pattern, ...]:
    """The parts of a mask that all have to allow a pair."""
    if not mask.every:
        return (mask,)
    return tuple(single for part in mask.every for single in _single(part))


def _all(valid: Iterable[Tensor | None]) -> Tensor | None:
    given = [each for each in valid if each is not None]
    return reduce(torch.logical_and, given) if given else None


def any_of(*parts: Pattern) -> Pattern:
    """The pairs that at least one part allows."""
    for part in parts:
        check_is_pattern("any_of", part)
    return parts[0] if len(parts) == 1 else AnyOf(*parts)


def any_in_blocks(matrix: Bool[Tensor, "n k"], grid: Grid) -> Bool[Tensor, "nq nk"]:
    """True for each block of the grid in which the matrix has a True, by differences of sums."""
    sums = torch.zeros(matrix.shape[0] + 1, matrix.shape[1] + 1, dtype=torch.int64)
    sums[1:, 1:] = matrix.long().cumsum(0).cumsum(1)
    top, bottom, left, right = grid.q_first, grid.q_last + 1, grid.k_first, grid.k_last + 1
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left] > 0
