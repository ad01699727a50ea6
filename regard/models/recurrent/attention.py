"""Attention of a recurrent decoder to its source, which all steps and rows share.

A step has one query, so the work that depends on the sentence alone is done once: its keys are
projected and its mask is made. All steps at once go through the chain and its fast paths.
"""

from dataclasses import replace
from typing import NamedTuple, cast, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap, Chain, attend, padding
from regard.attention.links import CoverageScore, Score, wide
from regard.layers.recurrent import Cells
from regard.models.shapes import NewStates, States
from regard.places import Counted, Places


class Source(NamedTuple):
    """The encoded source that a decoder attends to."""

    states: Float[Tensor, "b s m"]
    visible: Bool[Tensor, "b s"]
    """True for words that may be attended to."""
    cells: Cells
    """The decoder's state before its first word."""


class SourceMemory(NamedTuple):
    """A source prepared for the steps, once for each sentence."""

    key: Float[Tensor, "b 1 s k"]
    """Projected already."""
    value: Float[Tensor, "b 1 s m"]
    visible: Bool[Tensor, "b 1 1 s"]


class Looked(NamedTuple):
    """What some steps of a decoder saw."""

    context: NewStates
    covered: Float[Tensor, "r c"]
    """The coverage after them."""
    rows: tuple[Tensor, ...]
    """The selection's numbers for each step, with gradients (a REINFORCE loss reads them)."""


@final
class SourceAttention(nn.Module):
    """One head of attention from a decoder's states to a source.

    With coverage a key includes the weight it has received: the chain's keys are one wider.
    """

    def __init__(self, chain: Chain, *, has_coverage: bool) -> None:
        super().__init__()
        self.chain, self.has_coverage = chain, has_coverage

    def remember(self, source: Source) -> SourceMemory:
        """Project the keys once for all steps."""
        value = source.states[:, None]
        return SourceMemory(self.chain.score.prepared(value), value, source.visible[:, None, None])

    def nothing_covered(self, states: Float[Tensor, "b s m"]) -> Float[Tensor, "b c"]:
        """The coverage before the first step: zeros, or zero width without coverage."""
        width = states.shape[1] * self.has_coverage
        # a sum of many small weights needs more than half precision
        return states.new_zeros(len(states), width, dtype=wide(states[:0]).dtype)

    def all(self, query: Float[Tensor, "b t d"], source: Source) -> States:
        """The contexts of all steps at once, by the chain."""
        value = source.states[:, None]
        return self.chain(query[:, None], value, value, padding(source.visible)).context[:, 0]

    def forward(
        self,
        query: Float[Tensor, "r t d"],
        memory: SourceMemory,
        covered: Float[Tensor, "r c"],
        at: Int[Tensor, "t 1"],
    ) -> Looked:
        """What some steps see.

        The rows of a sentence are adjacent, and become several queries to one source. `covered`
        is the weight that each key has received from each row; with coverage there is one step at a
        time. `at` is where the queries stand.
        """
        each = len(query) // len(memory.value)
        queries = query.reshape(-1, 1, each * query.shape[1], query.shape[2])
        at, n_keys = at.expand(each, -1, -1).reshape(-1, 1), memory.value.shape[2]
        places = Places(at, Counted(0, n_keys), n_keys, device=query.device)
        score, select = self.chain.score, self.chain.select
        if self.has_coverage:
            before = covered.view(len(queries), 1, each, -1)
            scores = cast(CoverageScore, score).compare_covered(queries, memory.key, before)
        else:
            scores = score.compare(queries, memory.key, places)
        rows = select.summarise(scores, memory.visible, queries, places)
        weights = select.weigh(scores, memory.visible, rows, places)
        context = (weights @ memory.value).reshape(*query.shape[:2], -1)
        after = covered + weights.view_as(covered) if self.has_coverage else covered
        return Looked(context, after, rows)

    def map(
        self, query: Float[Tensor, "b t d"], source: Source, covered: Float[Tensor, "b t c"]
    ) -> tuple[AttentionMap, ...]:
        """The map of all steps, given what was covered before each."""
        queries, value, mask = query[:, None], source.states[:, None], padding(source.visible)
        if not self.has_coverage:
            return (replace(self.chain(queries, value, value, mask).map, value=value),)
        key = self.chain.score.prepared(value)
        known = Covered(cast(CoverageScore, self.chain.score), covered[:, None].detach())
        return (attend(queries, key, value, mask, score=known, select=self.chain.select).map,)


@final
class Covered(Score):
    """A score of prepared keys with a given coverage; record files name this class."""

    def __init__(self, score: CoverageScore, covered: Float[Tensor, "b h q k"]) -> None:
        self.score, self.covered = score, covered

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places | None = None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores of these rows with these keys, whose places are not used."""
        at = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        return self.score.compare_covered(query, key, self.covered[..., at.query, at.key])
