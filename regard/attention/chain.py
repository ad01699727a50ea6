"""Chain: an attention made of links, run by the fastest path that is exactly the same function."""

import itertools
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import engine
from regard.attention.additive_masks import split_mask
from regard.attention.attend import SCALED_DOT, SOFT, Attended, check_shapes
from regard.attention.engine.case import Case
from regard.attention.links import NO_RELATION, AnyMask, Memory, Pattern, Relation, Score, Selection
from regard.attention.masks import FULL, all_of
from regard.attention.tables import check_meetings
from regard.choices import find
from regard.errors import SettingError
from regard.places import Places


@final
class Chain(nn.Module):
    """score → relate → mask → select → combine, with its links fixed.

    The pattern applies to every batch; a memory shortens keys and values first. `dropout` is the
    share of the weights dropped in training. `path` runs that path ("dense", "fused", …) and no
    other; it is an error if it cannot.
    """

    def __init__(
        self,
        score: Score = SCALED_DOT,
        *,
        relation: Relation = NO_RELATION,
        pattern: Pattern = FULL,
        select: Selection = SOFT,
        memory: Memory | None = None,
        dropout: float = 0.0,
        path: str | None = None,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise SettingError(f"chain: dropout must lie in [0, 1), got {dropout}.")
        if path is not None:
            find(path, engine.PATHS)
        links = [score, relation, pattern, select, memory]
        check_meetings(link for link in links if link is not None)
        self.score, self.relation, self.pattern = score, relation, pattern
        self.select, self.memory, self.dropout, self.path = select, memory, dropout, path

    def forward(
        self,
        query: Float[Tensor, "b h q dq"],
        key: Float[Tensor, "b h k dk"],
        value: Float[Tensor, "b h k dv"],
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> Attended:
        """Attend; the mask is joined with the chain's own pattern."""
        return engine.run(self._case(query, key, value, mask, places), path=self.path)

    def explain(
        self,
        n_queries: int,
        n_keys: int | None = None,
        *,
        n_heads: int = 1,
        d_query: int = 64,
        d_key: int | None = None,
        d_value: int | None = None,
        mask: AnyMask = FULL,
        past: int = 0,
    ) -> engine.Explanation:
        """Report which path would run for these sizes, why, and its cost."""
        n_keys, d_key = n_keys or n_queries, d_key or d_query
        # expanded tensors without memory, with the chain's own dtype and device
        own = itertools.chain(self.parameters(), self.buffers())
        nothing = next(own, torch.zeros(())).new_zeros(())
        case = self._case(
            nothing.expand(1, n_heads, n_queries, d_query),
            nothing.expand(1, n_heads, n_keys, d_key),
            nothing.expand(1, n_heads, n_keys, d_value or d_key),
            mask,
            Places.between(n_queries, n_keys, past=past, device=nothing.device),
        )
        return engine.explain(case, path=self.path)

    def _case(
        self, query: Tensor, key: Tensor, value: Tensor, mask: AnyMask, places: Places | None
    ) -> Case:
        check_shapes(query, key, value)
        places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        mask, relation = split_mask(mask, self.relation, places)
        if self.memory is not None and relation is not self.relation:
            check_meetings([self.memory, relation])
        return Case(
            query=query,
            key=key,
            value=value,
            mask=all_of(self.pattern, mask),
            places=places,
            score=self.score,
            relation=relation,
            select=self.select,
            memory=self.memory,
            dropout=self.dropout if self.training else 0.0,
        )
