"""Grouped-query attention: many heads look, and groups of them share keys and values.

    head[i] = chain(Q W_Q[i], K W_K[g(i)], V W_V[g(i)]),   out = concat(head) W_O

Paper: Ainslie et al. 2023, section 2.2; one group is multi-query (Shazeer 2019).
Cost: projections O(n · m²), the chain's cost for each head; a cache shrinks by heads / groups.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.attention.caches import KeyValues
from regard.attention.chain import Chain
from regard.attention.engine import Explanation
from regard.attention.links import Pattern
from regard.attention.masks import FULL
from regard.attention.meetings import check
from regard.dims import Dims
from regard.errors import DimsError
from regard.places import Places
from regard.positions.rotary import RotaryPositions


@final
class GroupedQueryHeads(nn.Module):
    """Projections around any chain.

    Args:
        dims: model width, heads, and the widths of queries, keys and values that come in.
        chain: the attention inside every head; scaled dot and softmax unless given. Its links are
            made for `dims.head()`.
        n_groups: heads of keys and values; it must divide the number of heads.
        has_bias: whether the four projections add a bias (the Transformer paper's do not).
        rotary: turns queries and keys by their positions.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        chain: Chain | None = None,
        n_groups: int = 1,
        has_bias: bool = False,
        rotary: RotaryPositions | None = None,
    ) -> None:
        super().__init__()
        if n_groups < 1 or dims.n_heads % n_groups:
            raise DimsError(
                f"grouped_query: n_groups ({n_groups}) must divide n_heads ({dims.n_heads}); "
                "1 is multi-query, n_heads is multi-head."
            )
        self.dims, self.n_groups, self.has_bias = dims, n_groups, has_bias
        self.chain = chain or Chain()
        self.rotary = rotary
        if rotary is not None:
            check([rotary, self.chain.score])
        d_groups = n_groups * dims.d_head
        self.W_Q = nn.Linear(dims.query, dims.d_model, bias=has_bias)
        self.W_K = nn.Linear(dims.key, d_groups, bias=has_bias)
        self.W_V = nn.Linear(dims.value, d_groups, bias=has_bias)
        self.W_O = nn.Linear(dims.d_model, dims.d_model, bias=has_bias)
        for projection in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        self.W_QKV: nn.Linear | None = None
        """The first three side by side, once `stack` was called."""

    def forward(
        self,
        query: Float[Tensor, "b q mq"],
        key: Float[Tensor, "b k mk"] | None = None,
        value: Float[Tensor, "b k mv"] | None = None,
        mask: Pattern | Tensor = FULL,
        places: Places | None = None,
    ) -> Attended:
        """Attend with every head and join them; without a key the sequence attends to itself."""
        if key is None and value is None and self.W_QKV is not None:
            queries, keys, values = self._own(query)
            at = places or Places.between(*2 * query.shape[1:2], device=query.device)
            return self.join(self._look(queries, self._memory(keys, values, 0), mask, at))
        key = query if key is None else key
        memory = self.remember(key, key if value is None else value)
        return self.join(self.look(query, memory, mask, places))

    def remember(
        self, key: Float[Tensor, "b k mk"], value: Float[Tensor, "b k mv"], *, past: int = 0
    ) -> KeyValues:
        """Project keys and values once, for as many queries as will come."""
        return self._memory(self.W_K(key), self.W_V(value), past)

    def look(
        self,
        query: Float[Tensor, "r q mq"],
        memory: KeyValues,
        mask: Pattern | Tensor = FULL,
        places: Places | None = None,
    ) -> Attended:
        """Let every head look at projected keys and values; the heads are not yet joined.

        Several rows of queries may share a row of the memory, as the beams of a sentence share its
        source: they stand side by side, are looked up together, and so they are in the map.
        """
        rows, n, width = query.shape
        places = places or Places.between(n, memory.length, device=query.device)
        n_each = _rows_each(query, memory)
        if n_each == 1:
            return self._look(self.W_Q(query), memory, mask, places)
        query = query.reshape(-1, n_each * n, width)
        heads = self._look(self.W_Q(query), memory, mask, places.repeated(n_each))
        apart = heads.context.transpose(1, 2).reshape(rows, n, self.dims.n_heads, -1)
        return heads.with_context(apart.transpose(1, 2))

    def look_back(
        self,
        x: Float[Tensor, "b q m"],
        past: KeyValues | None = None,
        mask: Pattern | Tensor = FULL,
    ) -> tuple[Attended, KeyValues]:
        """Let every head look from new positions at themselves and a cache; as `look`."""
        n_past = 0 if past is None else past.length
        query, key, value = self._own(x)
        new = self._memory(key, value, n_past)
        memory = new if past is None else past.append(new)
        places = Places.between(x.shape[1], memory.length, past=n_past, device=x.device)
        return self._look(query, memory, mask, places), memory

    def step(
        self,
        x: Float[Tensor, "b q m"],
        past: KeyValues | None = None,
        mask: Pattern | Tensor = FULL,
    ) -> tuple[Attended, KeyValues]:
        """Attend from new positions to themselves and a cache; the longer cache comes back."""
        heads, memory = self.look_back(x, past, mask)
        return self.join(heads), memory

    def join(self, heads: Attended) -> Attended:
        """Put the heads side by side and mix them."""
        joined = self.W_O(heads.context.transpose(1, 2).flatten(-2))
        return heads.with_context(joined)

    @torch.no_grad()
    def stack(self) -> None:
        """Lay the weights of queries, keys and values side by side, for models that only write.

        One product then makes all three; no gradient comes back to the three through it.
        """
        parts = (self.W_Q, self.W_K, self.W_V)
        d_out = sum(part.out_features for part in parts)
        self.W_QKV = nn.Linear(self.dims.query, d_out, bias=self.has_bias, device="meta")
        self.W_QKV.weight = nn.Parameter(torch.cat([part.weight for part in parts]))
        if self.has_bias:
            self.W_QKV.bias = nn.Parameter(torch.cat([part.bias for part in parts]))

    def explain(self, n_queries: int, n_keys: int | None = None) -> Explanation:
        """Which path every head will take for these lengths."""
        return self.chain.explain(
            n_queries, n_keys, n_heads=self.dims.n_heads, d_query=self.dims.d_head
        )

    def _own(self, x: Float[Tensor, "b n m"]) -> tuple[Tensor, ...]:
        """Queries, keys and values of one sequence."""
        if self.W_QKV is None:
            return self.W_Q(x), self.W_K(x), self.W_V(x)
        d_groups = self.n_groups * self.dims.d_head
        return self.W_QKV(x).split((self.dims.d_model, d_groups, d_groups), -1)

    def _memory(
        self, key: Float[Tensor, "b k gd"], value: Float[Tensor, "b k gd"], past: int
    ) -> KeyValues:
        keys = self._split(key, self.n_groups)
        if self.rotary is not None:
            keys = self.rotary(keys, torch.arange(past, past + keys.shape[-2], device=keys.device))
        return KeyValues(keys, self._split(value, self.n_groups))

    def _look(
        self, query: Float[Tensor, "b q m"], memory: KeyValues, mask: Pattern | Tensor, at: Places
    ) -> Attended:
        queries = self._split(query, self.dims.n_heads)
        if self.rotary is not None:
            queries = self.rotary(queries, at.query.squeeze(-1).expand(queries.shape[-2]))
        key, value = memory.key, memory.value
        if (each := self.dims.n_heads // self.n_groups) > 1:
            key, value = (x.repeat_interleave(each, 1) for x in (key, value))
        return self.chain(queries, key, value, mask, at)

    def _split(self, x: Float[Tensor, "b n m"], n_heads: int) -> Float[Tensor, "b h n d"]:
        return x.view(*x.shape[:2], n_heads, self.dims.d_head).transpose(1, 2)


def _rows_each(query: Tensor, memory: KeyValues) -> int:
    """How many rows of queries share a row of the memory; rows that do not fit are left to fail."""
    rows, kept = query.shape[0], memory.key.shape[0]
    return 1 if rows == kept or kept == 0 or rows % kept else rows // kept
