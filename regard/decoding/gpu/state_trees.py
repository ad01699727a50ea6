"""State trees: a search's state in tuples of tuples, read leaf by leaf, and copied."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from regard.attention.caches import Storage


def leaves(tree: Any) -> Iterator[Any]:
    """What is in tuples of tuples, in order."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def form_of(leaf: Any) -> Any:
    """What a leaf must have in common with that of another batch; anything unknown is refused."""
    if isinstance(leaf, Tensor):
        return tuple(leaf.shape), leaf.dtype
    if isinstance(leaf, Storage):
        return Storage
    if leaf is None or isinstance(leaf, bool | int | float | str):
        return leaf
    raise TypeError(f"the state of the model holds a {type(leaf).__name__}")


def copied(tree: Any, known: dict[int, Tensor]) -> Any:
    """The same tuples with copies of their tensors, and without shared storage of caches."""
    if isinstance(tree, Tensor):
        return known.setdefault(id(tree), tree.clone())
    if isinstance(tree, tuple):
        parts = [copied(part, known) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return None if isinstance(tree, Storage) else tree
