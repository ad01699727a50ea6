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

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.record import Attention, Record, as_slice, row_blocks

BLOCK_WEIGHTS = 1 << 22
"""About how many weights of all heads are rebuilt at a time."""


@final
@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """The statistics of one head; None if its places cannot be compared."""

    layer: int
    head: int
    entropy: float = 0.0
    distance: float | None = None
    sink: float
    sink_key: int
    previous: float | None = None
    same: float | None = None
    next: float | None = None
    same_word: float = 0.0
    redundancy: float | None
    twin: tuple[int, int] | None
    """Layer and head of the most similar head."""


def head_statistics(record: Record, kind: str, *, every: int = 1) -> tuple[HeadStatistics, ...]:
    """One row for each head of a kind, in order of layers; one in `every` queries is used."""
    if every < 1:
        raise SettingError(f"statistics: every must be at least 1, got {every}.")
    one = find(kind, record.attention)
    rows = range((every - 1) // 2, len(one.queries), every) or range(len(one.queries))
    # g counts the heads of all layers
    n_all, per_layer = len(one.layers) * one.n_heads, one.n_heads
    received = torch.zeros(n_all, len(one.keys), dtype=torch.float64)
    products = torch.zeros(n_all, n_all, dtype=torch.float64)
    sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros(n_all, dtype=torch.float64))
    queries, keys = _numbers(one)
    for some, weights in _blocks(one, rows):
        row = torch.tensor(some)[:, None]
        apart = torch.arange(weights.shape[-1]) - row
        masks = {"same_word": queries[row] == keys}
        if one.is_self:
            masks |= {"previous": apart == -1, "same": apart == 0, "next": apart == 1}
            sums["distance"] += torch.einsum("grk,rk->g", weights, apart.abs().float())
        for name, mask in masks.items():
            sums[name] += torch.einsum("grk,rk->g", weights, mask.float())
        sums["entropy"] += torch.special.entr(weights).sum((1, 2))
        received += weights.sum(1)
        flat = weights.flatten(1)
        products += flat @ flat.T
    lengths = products.diagonal().clamp(min=1e-30).sqrt()
    cosines = (products / lengths / lengths[:, None]).fill_diagonal_(-1.0)
    shares = received / received.sum(-1, keepdim=True).clamp(min=1e-30)
    nearest, is_alone = cosines.argmax(-1).tolist(), n_all == 1
    return tuple(
        HeadStatistics(
            layer=number // per_layer,
            head=number % per_layer,
            sink=float(shares[number].max()),
            sink_key=int(shares[number].argmax()),
            redundancy=None if is_alone else float(cosines[number, twin]),
            twin=None if is_alone else divmod(twin, per_layer),
            **{name: float(total[number]) / max(len(rows), 1) for name, total in sums.items()},
        )
        for number, twin in enumerate(nearest)
    )


def _blocks(one: Attention, rows: range) -> Iterator[tuple[range, Float[Tensor, "g r k"]]]:
    per_row = len(one.layers) * one.n_heads * max(len(one.keys), 1)
    for some in row_blocks(rows, BLOCK_WEIGHTS // per_row):
        tiles = [layer.tile(as_slice(some), slice(None))[0].float().cpu() for layer in one.layers]
        yield some, torch.cat(tiles)


def _numbers(one: Attention) -> tuple[Tensor, Tensor]:
    """Each side's pieces as numbers; equal pieces have equal numbers."""
    known: dict[str, int] = {}
    queries, keys = (
        torch.tensor([known.setdefault(piece, len(known)) for piece in side.pieces])
        for side in (one.queries, one.keys)
    )
    return queries, keys
