"""Chain: an attention made of links, run by the fastest path that is exactly the same function."""

import itertools
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import engine
from regard.attention.additive_masks import BiasedMask, split_mask
from regard.attention.attend import (
    SCALED_DOT,
    SOFT,
    Attended,
    are_alike,
    check_shapes,
    one_width_error,
)
from regard.attention.engine.case import Case
from regard.attention.engine.dense import weights_of
from regard.attention.given_links import given_link, place_of
from regard.attention.links import (
    NO_RELATION,
    AnyMask,
    ChainLink,
    Memory,
    Pattern,
    Relation,
    Score,
    Selection,
)
from regard.attention.masks import FULL, all_of
from regard.attention.shapes import Weights
from regard.attention.tables import chain_text, check_meetings, name_of
from regard.attention.widths import Widths, check_widths
from regard.choices import find
from regard.errors import SettingError, ShapeError
from regard.places import Places


@final
class Chain(nn.Module):
    """score → relate → mask → select → combine, with its links fixed.

    A link is an object or its name, `Chain(select="sparsemax")`; one whose parameters have sizes is
    an object, or a name given to `multi_head`, which knows them. The pattern applies to every
    batch; a memory shortens keys and values first. `dropout` is the share of the weights dropped in
    training. `path` runs that path ("dense", "fused", …) and no
    other; it is an error if it cannot.
    """

    def __init__(
        self,
        score: Score | str = SCALED_DOT,
        *,
        relation: Relation | str = NO_RELATION,
        pattern: Pattern | str = FULL,
        select: Selection | str = SOFT,
        memory: Memory | str | None = None,
        dropout: float = 0.0,
        path: str | None = None,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise SettingError(f"chain: dropout must lie in [0, 1), got {dropout}.")
        if path is not None:
            find(path, engine.PATHS)
        self.score: Score = given_link("chain", "score", score)
        self.relation: Relation = given_link("chain", "relation", relation)
        self.pattern: Pattern = given_link("chain", "pattern", pattern)
        self.select: Selection = given_link("chain", "select", select)
        self.memory: Memory | None = (
            None if memory is None else given_link("chain", "memory", memory)
        )
        every = (self.score, self.relation, self.pattern, self.select, self.memory)
        links: list[ChainLink] = [link for link in every if link is not None]
        check_meetings(links)
        self.dropout, self.path = dropout, path
        # read here once, since a step of decoding takes no longer than a few such lookups
        self._made_for = tuple((name_of(one), one.widths) for one in links if any(one.widths))
        self._needs_one_width = self.score.needs_one_width

    def __repr__(self) -> str:
        links = chain_text(self.score, self.relation, self.pattern, self.select, self.memory)
        dropout = f", dropout={self.dropout:g}" if self.dropout else ""
        path = "" if self.path is None else f", path={self.path}"
        return f"Chain({links}{dropout}{path})"

    def check_fits(self, who: str, given: Widths) -> None:
        """Refuse heads or widths that the links' parameters are not made for."""
        check_widths(who, self._made_for, given)
        if self._needs_one_width and given.query != given.key:
            raise one_width_error(who, self.score, given.query, given.key)

    def forward(
        self,
        query: Float[Tensor, "b h q dq"],
        key: Float[Tensor, "b h k dk"],
        value: Float[Tensor, "b h k dv"],
        mask: AnyMask | BiasedMask = FULL,
        places: Places | None = None,
        *,
        dropout: float | None = None,
    ) -> Attended:
        """Attend; the mask is joined with the chain's own pattern.

        `dropout` is the share of the weights dropped in this call, where the caller decides it and
        not the chain.
        """
        self._check_inputs(query, key, value)
        case = self._case(query, key, value, mask, places, dropout)
        return engine.run(case, path=self.path)

    def with_weights(
        self,
        query: Float[Tensor, "b h q dq"],
        key: Float[Tensor, "b h k dk"],
        value: Float[Tensor, "b h k dv"],
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> tuple[Attended, Weights]:
        """Attend densely, and give all weights too, with gradients: a loss may read them."""
        self._check_inputs(query, key, value)
        case = self._case(query, key, value, mask, places).short()
        attended = engine.run(case, path="dense")
        return attended, weights_of(case, attended.rows)

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
        n_keys, d_key = n_queries if n_keys is None else n_keys, d_key or d_query
        sizes = {"n_queries": n_queries, "n_keys": n_keys, "n_heads": n_heads, "d_query": d_query}
        for name, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise SettingError(f"explain: {name} must be a whole number from 1, got {size!r}.")
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

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Refuse inputs without heads, and widths that the links are not made for."""
        are_tensors = all(isinstance(one, Tensor) for one in (query, key, value))
        q: tuple[int, ...] = ()
        k = v = q
        if are_tensors:
            # a step of decoding takes no longer than a few lookups, so each shape is read once
            q, k, v = query.shape, key.shape, value.shape
        if len(q) != 4 or k[:-1] != v[:-1] or q[:-2] != k[:-2]:
            check_shapes(query, key, value, who="chain")
            raise ShapeError(
                "chain: expected query, key and value of four dimensions (b, h, q, d): sentences, "
                f"heads, positions and a head's width; got a query of {tuple(q)}. Write "
                "x[None, None] for a single sentence and head, or take multi_head(dims), which "
                "makes heads of (b, q, d_model)."
            )
        if not are_alike(query, key, value):
            check_shapes(query, key, value, who="chain")
        if self._made_for or self._needs_one_width:
            self.check_fits("chain", Widths(q[1], q[3], k[3], v[3]))

    def _case(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AnyMask | BiasedMask,
        places: Places | None,
        dropout: float | None = None,
    ) -> Case:
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
            dropout=(self.dropout if self.training else 0.0) if dropout is None else dropout,
        )


def chain_of(who: str, given: object) -> Chain:
    """The chain that a caller gives, the plain one for None; anything else is refused."""
    if given is None or isinstance(given, Chain):
        return given or Chain()
    place = place_of(given)
    got = f"the class {given.__name__}" if isinstance(given, type) else f"{given!r:.40}"
    remedy = f"{place}={given!r:.40}" if isinstance(given, str) else f"{place}=…"
    raise SettingError(
        f"{who}: chain must be a Chain, got {got}. Write chain=Chain({remedy if place else ''})."
    )
