"""Statistics of heads: what each one does, as one row of a table.

    entropy      mean over queries of −Σⱼ a[i,j] ln a[i,j], in nats
    distance     mean over queries of Σⱼ a[i,j] |i − j|
    sink         the largest share of all weight that one key receives, and which key that is
    previous     mean weight of the place before a query's own; next and same likewise
    same_word    mean weight of keys that are the same piece of text as the query
    redundancy   the largest cosine between this head's weights and another head's, and which one

Places are compared only where a sequence looks at itself: row i of a decoder stands at the token
that it reads, key i.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.record import Attention, Record
from regard.inspecting.survey import Progress

BLOCK = 1 << 22
"""About how many weights of all heads are rebuilt at a time."""


@final
@dataclass(frozen=True)
class HeadStatistics:
    """What one head does; None where there is nothing to compare."""

    layer: int
    head: int
    entropy: float
    distance: float | None
    sink: float
    sink_key: int
    previous: float | None
    same: float | None
    next: float | None
    same_word: float
    redundancy: float | None
    twin: tuple[int, int] | None
    """Layer and head of the one that is most alike."""


def head_statistics(
    record: Record, kind: str, *, every: int = 1, progress: Progress | None = None
) -> tuple[HeadStatistics, ...]:
    """A row for every head of a kind, the first layer's first.

    Args:
        record: whose heads.
        kind: such as "encoder".
        every: use every so many queries of a long text.
        progress: told after every few rows how far the pass is.
    """
    if every < 1:
        raise SettingError(f"statistics: every must be at least 1, got {every}.")
    one = find(kind, record.attention)
    sums = _Sums(one)
    rows = range((every - 1) // 2, len(one.queries), every) or range(len(one.queries))
    for some, weights in _blocks(one, rows):
        sums.add(some, weights)
        if progress is not None:
            progress(rows.index(some[-1]) + 1, len(rows))
    return sums.table(max(len(rows), 1))


@final
class _Sums:
    """What is added up while the blocks go by; `g` counts the heads of all layers."""

    def __init__(self, one: Attention) -> None:
        self.shape = len(one.layers), one.n_heads
        n_heads = self.shape[0] * self.shape[1]
        self.is_square = one.is_self
        self.pieces = _numbers(one)
        self.received = torch.zeros(n_heads, len(one.keys), dtype=torch.float64)
        names = ("entropy", "distance", "previous", "same", "next", "same_word")
        self.sums = {name: torch.zeros(n_heads, dtype=torch.float64) for name in names}
        self.products = torch.zeros(n_heads, n_heads, dtype=torch.float64)

    def add(self, rows: range, weights: Float[Tensor, "g r k"]) -> None:
        row, key = torch.tensor(rows)[:, None], torch.arange(weights.shape[-1])
        queries, keys = self.pieces
        apart = key - row
        shown = {
            "distance": apart.abs().float(),
            "previous": (apart == -1).float(),
            "same": (apart == 0).float(),
            "next": (apart == 1).float(),
            "same_word": (queries[row] == keys).float(),
        }
        self.sums["entropy"] += torch.special.entr(weights).sum((1, 2))
        for name, what in shown.items():
            self.sums[name] += torch.einsum("grk,rk->g", weights, what)
        self.received += weights.sum(1)
        flat = weights.flatten(1)
        self.products += flat @ flat.T

    def table(self, n_rows: int) -> tuple[HeadStatistics, ...]:
        lengths = self.products.diagonal().clamp(min=1e-30).sqrt()
        cosines = (self.products / lengths / lengths[:, None]).fill_diagonal_(-1.0)
        shares = self.received / self.received.sum(-1, keepdim=True).clamp(min=1e-30)
        return tuple(
            self._row(number, n_rows, cosines[number], shares[number])
            for number in range(len(lengths))
        )

    def _row(
        self, number: int, n_rows: int, cosines: Float[Tensor, " g"], shares: Float[Tensor, " k"]
    ) -> HeadStatistics:
        mean = {name: float(total[number]) / n_rows for name, total in self.sums.items()}
        placed = {
            name: mean[name] if self.is_square else None
            for name in ("distance", "previous", "same", "next")
        }
        is_alone = len(cosines) == 1
        twin = int(cosines.argmax())
        return HeadStatistics(
            layer=number // self.shape[1],
            head=number % self.shape[1],
            entropy=mean["entropy"],
            distance=placed["distance"],
            sink=float(shares.max()),
            sink_key=int(shares.argmax()),
            previous=placed["previous"],
            same=placed["same"],
            next=placed["next"],
            same_word=mean["same_word"],
            redundancy=None if is_alone else float(cosines[twin]),
            twin=None if is_alone else divmod(twin, self.shape[1]),
        )


def _blocks(one: Attention, rows: range) -> Iterator[tuple[range, Float[Tensor, "g r k"]]]:
    per_row = len(one.layers) * one.n_heads * max(len(one.keys), 1)
    high = max(1, BLOCK // per_row)
    for first in range(0, len(rows), high):
        some = rows[first : first + high]
        part = slice(some.start, some.stop, some.step)
        tiles = [layer.tile(part, slice(None))[0].float().cpu() for layer in one.layers]
        yield some, torch.cat(tiles)


def _numbers(one: Attention) -> tuple[Tensor, Tensor]:
    """Every distinct piece as a number, for both sides."""
    known: dict[str, int] = {}
    queries, keys = (
        torch.tensor([known.setdefault(piece, len(known)) for piece in side.pieces])
        for side in (one.queries, one.keys)
    )
    return queries, keys
