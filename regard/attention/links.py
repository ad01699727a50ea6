"""What each link of the chain promises, and the lowered forms the engine looks for.

A link *lowers itself*: asked whether it is also something a fast kernel knows (a dot product, a
bias, a softmax, a window), it answers with that form or with None. The engine matches the answers
and never asks for a class. A link also says itself what it can do and whom it can meet: chains and
models ask it, and know no names. A class that inherits a protocol has its default answers, which
claim no ability.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.places import Places


class Dot(NamedTuple):
    """A score that is `scale · query · key`, with both sides already projected."""

    query: Float[Tensor, "*b q d"]
    key: Float[Tensor, "*b k d"]
    scale: float


class SoftRows(NamedTuple):
    """What a softmax keeps of each row: the logarithm of its normaliser."""

    lse: Float[Tensor, "*b q 1"]


class KernelMask(NamedTuple):
    """A mask that torch's kernels can express: causal or not, and which keys exist."""

    is_causal: bool
    valid: Bool[Tensor, "b k"] | None

    @property
    def hides_nothing(self) -> bool:
        """Whether every query sees every key."""
        return not self.is_causal and self.valid is None


class Grid(NamedTuple):
    """First and last positions of blocks of queries and of keys."""

    q_first: Int[Tensor, "nq 1"]
    q_last: Int[Tensor, "nq 1"]
    k_first: Int[Tensor, "1 nk"]
    k_last: Int[Tensor, "1 nk"]
    length: int

    @classmethod
    def over(
        cls, places: Places, n_queries: int, n_keys: int, *, q_size: int, k_size: int
    ) -> "Grid":
        """Cut gapless rows and columns into blocks of `q_size` by `k_size`."""
        past = places.past or 0
        q = torch.arange(0, n_queries, q_size)[:, None]
        k = torch.arange(0, n_keys, k_size)[None, :]
        return cls(
            q + past,
            (q + q_size).clamp(max=n_queries) - 1 + past,
            k,
            (k + k_size).clamp(max=n_keys) - 1,
            places.length,
        )


@runtime_checkable
class ChainLink(Protocol):
    """What every link answers for itself; one that does not say is taken with care."""

    is_movable: bool = False
    """Whether it gives the same wherever a text stands, so that padding may stand before it."""

    def cannot_meet(self, other: object) -> str | None:
        """Why another link may not stand in one chain with it, and what to take instead."""
        return None

    def stops_gradient(self) -> str | None:
        """Why a loss of the context alone leaves weights as they are, and what to take instead."""
        return None


@runtime_checkable
class Score(ChainLink, Protocol):
    """How well does this query suit this key? Any real numbers."""

    held_per_pair: int = 0
    """Numbers that a pair takes before it becomes one score; 0 for a dot product."""
    needs_one_width: bool = False
    """Whether queries and keys must be equally wide."""
    bears_rotation: bool = False
    """Whether turning query and key by their positions leaves their distance alone to count."""
    is_scaled_dot: bool = False
    """Whether it is q · k / sqrt(d), to whose keys a relation may add vectors."""

    def __call__(
        self,
        query: Float[Tensor, "*b q dq"],
        key: Float[Tensor, "*b k dk"],
        places: Places | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores."""

    def as_dot(self, query: Float[Tensor, "*b q dq"], key: Float[Tensor, "*b k dk"]) -> Dot | None:
        """The same score as one dot product, where it is one."""
        return None

    def prepared(self, key: Float[Tensor, "*b k dk"]) -> Float[Tensor, "*b k p"]:
        """What can be done to the keys once, for as many queries as will come."""
        return key

    def compare(
        self,
        query: Float[Tensor, "*b q dq"],
        prepared: Float[Tensor, "*b k p"],
        places: Places | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores, from prepared keys."""
        return self(query, prepared, places)


@runtime_checkable
class CoverageScore(Protocol):
    """A score that reads what a key has received before, as the last number of the key.

    Its keys are then prepared without that number, which differs from query to query.
    """

    def compare_covered(
        self,
        query: Float[Tensor, "*b q dq"],
        prepared: Float[Tensor, "*b k p"],
        covered: Float[Tensor, "*b q k"],
    ) -> Float[Tensor, "*b q k"]:
        """The scores, from prepared keys and what each has received before each query."""


@runtime_checkable
class Relation(ChainLink, Protocol):
    """What does the distance between two positions add, to the scores and to the context?"""

    is_zero: bool = False
    """Whether it adds nothing to either."""
    reads_query: bool = True
    """Whether what it adds depends on the query, and not on the places alone."""

    def to_scores(self, query: Float[Tensor, "b h q d"], places: Places) -> Float[Tensor, "*b q k"]:
        """What is added to the scores."""

    def to_context(
        self, weights: Float[Tensor, "*b q k"], places: Places
    ) -> Float[Tensor, "*b q d"] | float:
        """What is added to the context; by default the values are left alone."""
        return 0.0

    def as_bias(self, places: Places) -> Float[Tensor, "*b q k"] | None:
        """The whole relation as a bias that depends on the places alone, where it is one."""
        return None


@runtime_checkable
class Pattern(ChainLink, Protocol):
    """Which keys may this query see? A predicate on places; masks are patterns too."""

    needs_length: bool = True
    """Whether what a query sees depends on how long the text is."""
    cannot_write: str | None = None
    """Why no layer that writes can have it, and what to take instead."""

    def visible(self, places: Places) -> Bool[Tensor, "*b #q #k"]:
        """True where the query may attend to the key."""

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """True where a block may hold a visible pair; False is a promise, True is not."""
        return torch.ones(len(grid.q_first), grid.k_first.shape[-1], dtype=torch.bool)

    def as_kernel(self) -> KernelMask | None:
        """The pattern as torch's kernels know it, where they do."""
        return None


@runtime_checkable
class Window(Protocol):
    """A selection that looks at no more than `2 · half_width + 1` keys around a centre."""

    half_width: int

    def centre(
        self, query: Float[Tensor, "b h q d"], places: Places, extent: Int[Tensor, "*b #q 1"]
    ) -> Float[Tensor, "*b #q 1"]:
        """Where each row looks; `extent` is the number of keys up to its last visible one."""

    def settle(
        self,
        scores: Float[Tensor, "b h q w"],
        mask: Bool[Tensor, "*b #q #w"],
        centre: Float[Tensor, "*b q 1"],
        places: Places,
    ) -> tuple[Tensor, ...]:
        """The row numbers, from scores that cover at least the window."""


@runtime_checkable
class Selection(ChainLink, Protocol):
    """How do scores become weights? In two phases, so that any tile can be rebuilt alone."""

    def summarise(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        query: Float[Tensor, "*b q d"],
        places: Places,
    ) -> tuple[Tensor, ...]:
        """A few numbers per row, each of shape `*b q 1`, from the whole row."""

    def weigh(
        self,
        scores: Float[Tensor, "*b q k"],
        mask: Bool[Tensor, "*bm #q #k"],
        rows: Any,
        places: Places,
    ) -> Float[Tensor, "*b q k"]:
        """The weights of any rectangle, from its scores and its rows' numbers."""

    def as_softmax(self) -> float | None:
        """The inverse temperature, where the weights are the softmax of scaled scores."""
        return None

    def as_window(self) -> Window | None:
        """The window outside which every weight is zero, where there is one."""
        return None


class Short(NamedTuple):
    """Keys and values after a memory shortened them, and who may see which slot."""

    key: Float[Tensor, "b h s d"]
    value: Float[Tensor, "b h s dv"]
    mask: Pattern
    places: Places


@runtime_checkable
class Memory(ChainLink, Protocol):
    """Is the key and value side shortened first?"""

    needs_length: bool = True
    """Whether what a query sees depends on how long the text is."""
    cannot_write: str | None = None
    """Why no layer that writes can have it, and what to take instead."""
    is_for_all_layers: bool = False
    """Whether the layers of a model have this one memory in common."""

    def shorten(
        self,
        key: Float[Tensor, "b h k d"],
        value: Float[Tensor, "b h k dv"],
        mask: Pattern,
        places: Places,
    ) -> Short:
        """Fewer keys and values, the slots of the memory."""

    def cannot_meet(self, other: object) -> str | None:
        """Refuse what tells positions apart: a slot mixes many of them."""
        if isinstance(other, Relation) and not other.is_zero:
            return (
                "a slot mixes many positions, so that no distance to it is defined; leave the "
                "relation out"
            )
        if isinstance(other, Selection) and other.as_window() is not None:
            return "a slot has no position in the sentence for a window to look at; take soft"
        if isinstance(other, Score) and not other.is_movable:
            return "the score knows keys by their positions, and slots have none; take scaled_dot"
        if isinstance(other, Pattern) and other.as_kernel() is None:
            return "a slot mixes positions that the pattern would tell apart; take full"
        return None


class NoRelation(Relation):
    """Distance adds nothing."""

    is_zero = True
    reads_query = False

    def to_scores(self, query: Float[Tensor, "*b q d"], places: Places) -> Float[Tensor, "1 1"]:
        """One zero for all pairs."""
        return query.new_zeros(1, 1)


NO_RELATION = NoRelation()


def largest_negative(scores: Float[Tensor, "*b"]) -> float:
    """What a masked score is filled with: finite, so that an empty row has finite gradients."""
    return torch.finfo(scores.dtype).min


def keys_that_exist(valid: Bool[Tensor, "b k"], n_keys: int) -> Bool[Tensor, "b n"]:
    """A padding mask cut to the keys there are; a mask that does not reach them is an error."""
    if valid.shape[-1] < n_keys:
        raise ShapeError(
            f"mask: padding speaks of {valid.shape[-1]} keys, but there are {n_keys}. Pass the "
            "padded length: padding(lengths, n_keys)."
        )
    return valid[:, :n_keys]


def wide(numbers: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """At least single precision: half a dozen bits are too few for a sum or a position."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def log_normaliser(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "*bm #q #k"]
) -> Float[Tensor, "*b q 1"]:
    """Logarithm of the sum of exponentials over the visible keys of each row."""
    scores = wide(scores)
    return scores.masked_fill(~mask, largest_negative(scores)).logsumexp(-1, keepdim=True)


def normalised(
    scores: Float[Tensor, "*b q k"],
    mask: Bool[Tensor, "*bm #q #k"],
    lse: Float[Tensor, "*b q 1"],
) -> Float[Tensor, "*b q k"]:
    """exp(score - lse) where visible, else exactly 0."""
    exact = wide(scores)
    shown = exact.masked_fill(~mask, largest_negative(exact))
    return (shown - lse).exp().to(scores.dtype) * mask


def extent_of(mask: Bool[Tensor, "*bm #q #k"], places: Places) -> Int[Tensor, "*b q 1"]:
    """Number of keys up to the last visible one of each row."""
    return (
        torch.where(mask, places.key + 1, 0)
        .amax(-1, keepdim=True)
        .expand(torch.broadcast_shapes((*mask.shape[:-1], 1), places.query.shape))
    )
