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
from regard.attention.chain import Chain, chain_of
from regard.attention.engine import Explanation
from regard.attention.links import AnyMask
from regard.attention.masks import FULL
from regard.attention.shapes import Queries, Vectors
from regard.attention.tables import check_meetings
from regard.attention.widths import Widths, check_inputs
from regard.dims import Dims, check_dims
from regard.errors import DimsError
from regard.places import Places
from regard.positions.rotary import RotaryPositions


@final
class GroupedQueryHeads(nn.Module):
    """Projections around any chain, whose links are made for `dims.head()`.

    `n_groups` heads of keys and values must divide the heads; `has_bias` is of all projections.
    `query_norm` and `key_norm` norm queries and keys of each head, which `rotary` turns then.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        chain: Chain | None = None,
        n_groups: int = 1,
        has_bias: bool = False,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        rotary: RotaryPositions | None = None,
    ) -> None:
        super().__init__()
        check_dims("heads", dims)
        if n_groups < 1 or dims.n_heads % n_groups:
            raise DimsError(
                f"grouped_query: n_groups ({n_groups}) must divide n_heads ({dims.n_heads}); "
                "1 is multi-query, n_heads is multi-head."
            )
        self.dims, self.n_groups, self.has_bias = dims, n_groups, has_bias
        self.chain = chain_of("heads", chain)
        self.query_norm, self.key_norm, self.rotary = query_norm, key_norm, rotary
        check_meetings([self.chain.score] if rotary is None else [rotary, self.chain.score])
        self.chain.check_fits("heads", Widths(dims.n_heads, *[dims.d_head] * 3))
        d_heads, d_groups = dims.n_heads * dims.d_head, n_groups * dims.d_head
        self.W_Q = nn.Linear(dims.query, d_heads, bias=has_bias)
        self.W_K = nn.Linear(dims.key, d_groups, bias=has_bias)
        self.W_V = nn.Linear(dims.value, d_groups, bias=has_bias)
        self.W_O = nn.Linear(d_heads, dims.d_model, bias=has_bias)
        for projection in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(projection.weight)
            if has_bias:
                nn.init.zeros_(projection.bias)
        self.W_QKV: nn.Linear | None = None
        """The weights of queries, keys and values in one tensor, after `stack`."""

    def extra_repr(self) -> str:
        """The heads, and the groups that share keys and values."""
        groups = f", n_groups={self.n_groups}" * (self.n_groups != self.dims.n_heads)
        return f"d_model={self.dims.d_model}, n_heads={self.dims.n_heads}{groups}"

    def forward(
        self,
        query: Float[Tensor, "b q mq"],
        key: Float[Tensor, "b k mk"] | None = None,
        value: Float[Tensor, "b k mv"] | None = None,
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> Attended:
        """Attend with every head and join them; without a key the sequence attends to itself."""
        check_inputs(self.dims, query, key, value, dtype=self.W_O.weight.dtype)
        if key is None and value is None:
            return self.join(self.attend_with_cache(query, None, mask, places)[0])
        key = query if key is None else key
        memory = self.remember(key, key if value is None else value)
        return self.join(self.attend_to_memory(query, memory, mask, places))

    def remember(
        self, key: Float[Tensor, "b k mk"], value: Float[Tensor, "b k mv"], *, past: int = 0
    ) -> KeyValues:
        """Project keys and values once, for all later queries."""
        return self._memory(self.W_K(key), self.W_V(value), past)

    def attend_to_memory(
        self,
        query: Float[Tensor, "r q mq"],
        memory: KeyValues,
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> Attended:
        """Attend with every head to projected keys and values, without joining the heads.

        Several rows of queries may share a row of the memory, as the beams of a sentence share its
        source: they are adjacent, and become one row with more queries, also in the map.
        """
        rows, n, width = query.shape
        places = places or Places.between(n, memory.length, device=query.device)
        n_each = _rows_each(query, memory)
        if n_each == 1:
            return self._attend(self.W_Q(query), memory, mask, places)
        query = query.reshape(-1, n_each * n, width)
        heads = self._attend(self.W_Q(query), memory, mask, places.repeated(n_each))
        apart = heads.context.transpose(1, 2).reshape(rows, n, self.dims.n_heads, -1)
        return heads.with_context(apart.transpose(1, 2))

    def attend_with_cache(
        self,
        x: Queries,
        past: KeyValues | None = None,
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> tuple[Attended, KeyValues]:
        """Attend with every head from new positions to a cache and themselves, without joining."""
        if self.W_QKV is None:
            key, value, query = self.W_K(x), self.W_V(x), self.W_Q(x)
        else:
            widths = [n * self.dims.d_head for n in (self.dims.n_heads, *2 * (self.n_groups,))]
            query, key, value = self.W_QKV(x).split(widths, -1)
        n_past = 0 if past is None else past.length
        memory = self._memory(key, value, n_past)
        memory = memory if past is None else past.append(memory)
        at = places or Places.between(x.shape[1], memory.length, past=n_past, device=x.device)
        return self._attend(query, memory, mask, at), memory

    def step(
        self, x: Queries, past: KeyValues | None = None, mask: AnyMask = FULL
    ) -> tuple[Attended, KeyValues]:
        """Attend from new positions to themselves and a cache; the longer cache comes back."""
        heads, memory = self.attend_with_cache(x, past, mask)
        return self.join(heads), memory

    def join(self, heads: Attended) -> Attended:
        """Put the heads side by side and mix them."""
        return heads.with_context(self.W_O(heads.context.transpose(1, 2).flatten(-2)))

    @torch.no_grad()
    def stack(self) -> None:
        """Join the weights of queries, keys and values in one tensor, for inference.

        One product then makes all three; no gradient flows to the three through it.
        """
        parts = (self.W_Q, self.W_K, self.W_V)
        d_out = sum(part.out_features for part in parts)
        self.W_QKV = nn.Linear(self.dims.query, d_out, bias=self.has_bias, device="meta")
        self.W_QKV.weight = nn.Parameter(torch.cat([part.weight for part in parts]))
        if self.has_bias:
            self.W_QKV.bias = nn.Parameter(torch.cat([part.bias for part in parts]))

    def explain(self, n_queries: int, n_keys: int | None = None) -> Explanation:
        """The path that every head will take for these lengths."""
        dims = self.dims
        return self.chain.explain(n_queries, n_keys, n_heads=dims.n_heads, d_query=dims.d_head)

    def _memory(
        self, key: Float[Tensor, "b k gd"], value: Float[Tensor, "b k gd"], past: int
    ) -> KeyValues:
        keys = self._split(key, self.n_groups, self.key_norm)
        if self.rotary is not None:
            keys = self.rotary(keys, torch.arange(past, past + keys.shape[-2], device=keys.device))
        return KeyValues(keys, self._split(value, self.n_groups, None))

    def _attend(
        self, query: Float[Tensor, "b q m"], memory: KeyValues, mask: AnyMask, at: Places
    ) -> Attended:
        queries = self._split(query, self.dims.n_heads, self.query_norm)
        if self.rotary is not None:
            queries = self.rotary(queries, at.query.squeeze(-1).expand(queries.shape[-2]))
        return self.chain(queries, *self.by_head(memory), mask, at)

    def by_head(self, memory: KeyValues) -> tuple[Tensor, Tensor]:
        """Keys and values repeated for every head, from those of every group."""
        if (each := self.dims.n_heads // self.n_groups) == 1:
            return memory.key, memory.value
        return memory.key.repeat_interleave(each, 1), memory.value.repeat_interleave(each, 1)

    def _split(self, x: Vectors, n: int, norm: nn.Module | None) -> Float[Tensor, "b h n d"]:
        heads = x.view(*x.shape[:2], n, self.dims.d_head).transpose(1, 2)
        return heads if norm is None else norm(heads)


def _rows_each(query: Tensor, memory: KeyValues) -> int:
    """How many rows of queries share a row of the memory; 1 if they do not fit, to fail later."""
    rows, kept = query.shape[0], memory.key.shape[0]
    return 1 if rows == kept or kept == 0 or rows % kept else rows // kept
