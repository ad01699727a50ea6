"""Maps that are computed when they are first read; a pass keeps only what they need."""

import threading
from collections.abc import Callable
from typing import final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention import AttentionMap


@final
class LazyMap:
    """The map of one sentence; the batch's map, of shape `b h q k`, is made when first read."""

    def __init__(
        self, make: Callable[[], AttentionMap], shape: tuple[int, ...], example: int = 0
    ) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: AttentionMap | None = None
        self.shape, self.example = (1, *shape[1:]), example

    @property
    def map(self) -> AttentionMap:
        """The map of the whole batch."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "1 h r c"]:
        """The weights of one rectangle."""
        return self.map.tile(rows, columns)[self.example][None]

    def tile_of(self, head: int, rows: slice, columns: slice) -> Float[Tensor, "r c"]:
        """The weights of one rectangle of one head."""
        if len(self.map.query) == 1:
            return self.map.tile_of(head, rows, columns)
        return self.map.tile(rows, columns)[self.example, head]

    def may_hold(
        self, rows: slice, columns: slice, *, size: int | None = None
    ) -> Bool[Tensor, "nr nc"]:
        """Which blocks of a rectangle may hold a weight; where False, all weights are zero."""
        return self.map.may_hold(rows, columns, size=size)

    def allowed(self, rows: slice) -> Int[Tensor, " r"]:
        """How many keys each query may see."""
        return self.map.allowed(rows, example=self.example)

    def context(self, rows: slice = slice(None)) -> Float[Tensor, "1 h r d"]:
        """The context of these queries."""
        return self.map.context(rows)[self.example][None]

    def value_norms(self) -> Float[Tensor, "1 h k"]:
        """How long each value is once the layer's output projection has turned it."""
        return self.map.value_norms()[self.example][None]


def map_of(layer: object) -> AttentionMap | None:
    """The map with its queries and keys; None where only weights were kept."""
    lazy = layer.map if isinstance(layer, LazyMap) else layer
    return lazy if isinstance(lazy, AttentionMap) else None
