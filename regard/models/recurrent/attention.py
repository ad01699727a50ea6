"""What a recurrent decoder looks at: a source kept once, for as many steps and rows as will come.

A step asks with one query, so that what can be done once for a sentence is: its keys are projected,
and its mask is made. All steps at once go through the chain and its fast paths.
"""

from typing import NamedTuple, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap, Chain, attend, padding
from regard.attention.links import CoverageScore, Score, wide
from regard.places import Places


class Memory(NamedTuple):
    """A source, once for each sentence."""

    key: Float[Tensor, "b 1 s k"]
    """Projected already."""
    value: Float[Tensor, "b 1 s m"]
    visible: Bool[Tensor, "b 1 1 s"]
    at: Int[Tensor, "1 s"]
    """Where the keys stand."""

    def select(self, sentences: Int[Tensor, " b"]) -> "Memory":
        """The source of some sentences."""
        kept = (self.key, self.value, self.visible)
        key, value, visible = (x.index_select(0, sentences) for x in kept)
        return Memory(key, value, visible, self.at)


@final
class Look(nn.Module):
    """One head that looks from a decoder's states at a source.

    Args:
        chain: score and selection; with coverage the score's keys are one wider.
        d_key: width of the source's states.
        has_coverage: whether a key knows what weight it has received.
    """

    def __init__(self, chain: Chain, *, d_key: int, has_coverage: bool) -> None:
        super().__init__()
        self.chain, self.width, self.has_coverage = chain, d_key, has_coverage

    def remember(self, states: Float[Tensor, "b s m"], visible: Bool[Tensor, "b s"]) -> Memory:
        """Do what can be done once."""
        value = states[:, None]
        at = torch.arange(states.shape[1], device=states.device)[None]
        return Memory(self.chain.score.prepared(value), value, visible[:, None, None], at)

    def nothing_covered(self, states: Float[Tensor, "b s m"]) -> Float[Tensor, "b c"]:
        """What has been covered before the first step; of no width without coverage."""
        width = states.shape[1] * self.has_coverage
        # a sum of many small weights needs more than half precision
        return states.new_zeros(len(states), width, dtype=wide(states[:0]).dtype)

    def all(
        self,
        query: Float[Tensor, "b t d"],
        states: Float[Tensor, "b s m"],
        visible: Bool[Tensor, "b s"],
    ) -> Float[Tensor, "b t m"]:
        """The contexts of all steps at once, by the chain."""
        value = states[:, None]
        return self.chain(query[:, None], value, value, padding(visible)).context[:, 0]

    def forward(
        self,
        query: Float[Tensor, "r t d"],
        memory: Memory,
        covered: Float[Tensor, "r c"],
        at: Int[Tensor, "t 1"],
    ) -> tuple[Float[Tensor, "r t m"], Float[Tensor, "r c"]]:
        """The contexts of some steps, and what is covered after them.

        The rows of a sentence stand side by side, and are so many queries to one source. With
        coverage there is one step at a time.

        Args:
            query: the states that ask.
            memory: a source for each sentence.
            covered: the weight that each key has received from each row.
            at: where the queries stand.
        """
        each = len(query) // len(memory.value)
        queries = query.reshape(-1, 1, each * query.shape[1], query.shape[2])
        at = at.expand(each, -1, -1).reshape(-1, 1)
        places = Places(at, memory.at, memory.at.shape[-1])
        score, select = self.chain.score, self.chain.select
        if self.has_coverage:
            before = covered.view(len(queries), 1, each, -1)
            scores = cast(CoverageScore, score).compare_covered(queries, memory.key, before)
        else:
            scores = score.compare(queries, memory.key, places)
        rows = select.summarise(scores, memory.visible, queries, places)
        weights = select.weigh(scores, memory.visible, rows, places)
        context = (weights @ memory.value).reshape(*query.shape[:2], -1)
        return context, covered + weights.view_as(covered) if self.has_coverage else covered

    def map(
        self,
        query: Float[Tensor, "b t d"],
        states: Float[Tensor, "b s m"],
        visible: Bool[Tensor, "b s"],
        covered: Float[Tensor, "b t c"],
    ) -> tuple[AttentionMap, ...]:
        """The map of all steps."""
        queries, value, mask = query[:, None], states[:, None], padding(visible)
        if not self.has_coverage:
            return (self.chain(queries, value, value, mask).map,)
        key = self.chain.score.prepared(value)
        known = Covered(cast(CoverageScore, self.chain.score), covered[:, None].detach())
        return (attend(queries, key, value, mask, score=known, select=self.chain.select).map,)


@final
class Covered(Score):
    """A score of prepared keys that knows what has been covered before each row, for a map."""

    def __init__(self, score: CoverageScore, covered: Float[Tensor, "b h q k"]) -> None:
        self.score, self.covered = score, covered

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places | None = None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores of these rows with these keys, wherever they stand."""
        at = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        return self.score.compare_covered(query, key, self.covered[..., at.query, at.key])


@final
class NoLook(nn.Module):
    """Nobody looks: what is said depends on the source only through the first state."""

    width = 0

    def remember(self, states: Float[Tensor, "b s m"], visible: Bool[Tensor, "b s"]) -> Memory:
        """Nothing but how many sentences there are."""
        nothing = states[:, None, :0, :0]
        at = torch.arange(0, device=states.device)[None]
        return Memory(nothing, nothing, visible[:, None, None, :0], at)

    def nothing_covered(self, states: Float[Tensor, "b s m"]) -> Float[Tensor, "b 0"]:
        """Nothing ever is."""
        return states.new_zeros(len(states), 0)

    def all(
        self,
        query: Float[Tensor, "b t d"],
        states: Float[Tensor, "b s m"],
        visible: Bool[Tensor, "b s"],
    ) -> Float[Tensor, "b t 0"]:
        """Contexts of no width."""
        return query[..., :0]

    def forward(
        self,
        query: Float[Tensor, "r t d"],
        memory: Memory,
        covered: Float[Tensor, "r 0"],
        at: Int[Tensor, "t 1"],
    ) -> tuple[Float[Tensor, "r t 0"], Float[Tensor, "r 0"]]:
        """Contexts of no width."""
        return query[..., :0], covered

    def map(
        self,
        query: Float[Tensor, "b t d"],
        states: Float[Tensor, "b s m"],
        visible: Bool[Tensor, "b s"],
        covered: Float[Tensor, "b t 0"],
    ) -> tuple[AttentionMap, ...]:
        """None."""
        return ()
