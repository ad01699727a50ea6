"""Links: the protocols of the chain's links, and the lowered forms that the engine matches.

A link *lowers itself*: methods such as `as_dot` return the form that a fast kernel supports (a dot
product, a bias, a softmax, a window), or None. The engine matches these forms and never checks a
class. A link also declares its abilities and the links it cannot be combined with: chains and
models read these, and contain no names of links. A class that inherits a protocol has its
defaults, which claim no ability.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.banded import Banded
from regard.attention.shapes import (
    Bias,
    Context,
    Keys,
    Mask,
    Prepared,
    Queries,
    RowNumber,
    Scores,
    Values,
    Weights,
)
from regard.attention.widths import Widths
from regard.errors import ShapeError
from regard.places import Places


class Dot(NamedTuple):
    """A score that is `scale · query · key`, with both sides already projected."""

    query: Queries
    key: Keys
    scale: float


class SoftRows(NamedTuple):
    """The softmax's number for each row: the logarithm of its normaliser."""

    lse: RowNumber


class LocalRows(NamedTuple):
    """The window's centre, and the logarithm of the normaliser inside it."""

    lse: RowNumber
    centre: RowNumber


class KernelMask(NamedTuple):
    """A mask that torch's kernels can express: causal or not, and which keys exist."""

    is_causal: bool
    valid: Bool[Tensor, "b k"] | None


class Threshold(NamedTuple):
    """A selection of the keys whose score is not below one number of their row.

    With a number of best keys, these share the weight as in a softmax, and keys tied with the last
    of them stay. Without, a key's weight is what its score has above the threshold, and the weights
    of a row sum to 1.
    """

    best: int | None
    rows: Callable[[RowNumber, RowNumber], tuple[Tensor, ...]]
    """The selection's row numbers, from the threshold and the log-sum-exp of the kept keys."""


class Grid(NamedTuple):
    """First and last positions of blocks of queries and of keys."""

    q_first: Int[Tensor, "nq 1"]
    q_last: Int[Tensor, "nq 1"]
    k_first: Int[Tensor, "1 nk"]
    k_last: Int[Tensor, "1 nk"]
    length: int

    @classmethod
    def over(
        cls, places: Places, rows: range, columns: range, *, q_size: int, k_size: int
    ) -> "Grid":
        """Cut some rows and columns of a gapless map into blocks of `q_size` by `k_size`."""
        begin = rows.start + (places.past or 0)
        q = torch.arange(0, len(rows), q_size)[:, None]
        k = torch.arange(0, len(columns), k_size)[None, :]
        return cls(
            begin + q * rows.step,
            begin + ((q + q_size).clamp(max=len(rows)) - 1) * rows.step,
            columns.start + k,
            columns.start + (k + k_size).clamp(max=len(columns)) - 1,
            places.length,
        )


@runtime_checkable
class ChainLink(Protocol):
    """The declarations of every link; the defaults claim no ability."""

    is_movable: bool = False
    """Whether its result is the same when all positions shift, so that padding may come first."""
    needs_length: bool = True
    """Whether the keys that a query sees depend on the text's length (patterns and memories)."""
    cannot_write: str | None = None
    """The reason why a causal layer cannot have it, with an alternative; None if it can."""
    widths: Widths = Widths()
    """What its parameters are made for."""

    def extra_repr(self) -> str:
        """Its settings, as a recipe has them."""
        return ""

    def cannot_meet(self, other: object) -> str | None:
        """Why another link may not stand in one chain with it, and what to take instead."""
        return None

    def stops_gradient(self) -> str | None:
        """Why a loss of the context alone leaves weights as they are, and what to take instead."""
        return None


@runtime_checkable
class Score(ChainLink, Protocol):
    """Scores queries with keys, by any real numbers."""

    needs_one_width: bool = False
    """Whether queries and keys must be equally wide."""
    bears_rotation: bool = False
    """Whether the score of a query and key rotated by position depends on distance alone."""
    is_scaled_dot: bool = False
    """Whether it is q · k / sqrt(d), to whose keys a relation may add vectors."""

    def __call__(self, query: Queries, key: Keys, places: Places | None = None) -> Scores:
        """The scores."""

    def as_dot(self, query: Queries, key: Keys) -> Dot | None:
        """The same score as one dot product, where it is one."""
        return None

    def prepared(self, key: Keys) -> Prepared:
        """The keys after all work that does not depend on the query."""
        return key

    def compare(self, query: Queries, prepared: Prepared, places: Places | None = None) -> Scores:
        """The scores, from prepared keys."""
        return self(query, prepared, places)


@runtime_checkable
class CoverageScore(Protocol):
    """A score that reads the weight each key has received before, as the last number of the key.

    Its keys are then prepared without that number, which differs from query to query.
    """

    def compare_covered(self, query: Queries, prepared: Prepared, covered: Scores) -> Scores:
        """The scores, from prepared keys and the weight each has received before each query."""


@runtime_checkable
class Relation(ChainLink, Protocol):
    """Adds terms of the distance between two positions, to the scores and to the context."""

    is_zero: bool = False
    """Whether it adds nothing to either."""
    reads_query: bool = True
    """Whether what it adds depends on the query, and not on the places alone."""
    adds_to_keys: bool = False
    """Whether it adds vectors to the keys, which is only defined for a scaled dot product."""
    reach: int | None = None
    """The distance from which on it is constant, or a straight line; None if there is none."""
    has_slope: bool = False
    """Whether it is a straight line from there on."""

    def cannot_meet(self, other: object) -> str | None:
        """Refuse scores that cannot read what it adds to the keys."""
        if not self.adds_to_keys or not isinstance(other, Score) or other.is_scaled_dot:
            return None
        return (
            "its vectors are added to the keys of a scaled dot product and share its 1/sqrt(d); "
            "take scaled_dot"
        )

    def to_scores(self, query: Queries, places: Places) -> Bias:
        """What is added to the scores; by default the bias."""
        bias = self.as_bias(places)
        assert bias is not None
        return bias

    def to_context(self, weights: Weights, places: Places) -> Context | float:
        """What is added to the context; by default the values are left alone."""
        return 0.0

    def as_bias(self, places: Places) -> Bias | None:
        """The whole relation as a bias that depends on the places alone, where it is one."""
        return None

    def as_banded(self, query: Queries) -> Banded | None:
        """The whole relation by distance, where it has a `reach`."""
        return None


@runtime_checkable
class Pattern(ChainLink, Protocol):
    """Decides which keys a query may see: a predicate on places; masks are patterns too."""

    every: "tuple[Pattern, ...]" = ()
    """The patterns that all have to show a pair, where it is made of several."""

    def visible(self, places: Places) -> Mask:
        """True where the query may attend to the key."""

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """False for blocks that surely hold no visible pair; True for all others."""
        return torch.ones(len(grid.q_first), grid.k_first.shape[-1], dtype=torch.bool)

    def as_kernel(self) -> KernelMask | None:
        """The pattern in the form of torch's kernels, or None."""
        return None

    def as_text(self) -> str | None:
        """Its name and settings, as `Choice.parse` reads them, if they are all that it is."""
        return None

    def extra_repr(self) -> str:
        """The settings of its text."""
        return (self.as_text() or "").partition(":")[2].replace(",", ", ")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


AnyMask = Pattern | Tensor
"""A mask as callers give it; a matrix is boolean, True = may attend, or floats added to scores."""


@runtime_checkable
class Window(Protocol):
    """A selection of at most `2 · half_width + 1` keys around a centre."""

    half_width: int

    def centre(
        self, query: Queries, places: Places, extent: Int[Tensor, "*b #q 1"]
    ) -> Float[Tensor, "*b #q 1"]:
        """The centre of each row; `extent` is the number of keys up to its last visible one."""

    def settle(
        self,
        scores: Float[Tensor, "b h q w"],
        mask: Bool[Tensor, "*b #q #w"],
        centre: RowNumber,
        places: Places,
    ) -> tuple[Tensor, ...]:
        """The row numbers, from scores that cover at least the window."""


@runtime_checkable
class Selection(ChainLink, Protocol):
    """Turns scores into weights, in two phases, so that any tile can be rebuilt alone."""

    def summarise(
        self, scores: Scores, mask: Mask, query: Queries, places: Places
    ) -> tuple[Tensor, ...]:
        """A few numbers per row, each of shape `*b q 1`, by default of its window."""
        window = self.as_window()
        assert window is not None
        until = torch.where(mask, places.key + 1, 0).amax(-1, keepdim=True)
        shape = torch.broadcast_shapes(until.shape, places.query.shape)
        centre = window.centre(query, places, until.expand(shape))
        return window.settle(scores, mask, centre, places)

    def weigh(self, scores: Scores, mask: Mask, rows: Any, places: Places) -> Weights:
        """The weights of any rectangle, from its scores and its rows' numbers."""

    def as_softmax(self) -> float | None:
        """The inverse temperature, where the weights are the softmax of scaled scores."""
        return None

    def as_threshold(self) -> Threshold | None:
        """The rule, where a key's weight depends on its score and the row's threshold alone."""
        return None

    def as_window(self) -> Window | None:
        """The window outside which every weight is zero, where there is one."""
        return None

    def as_faded_softmax(self) -> float | None:
        """The rate r of a softmax inside the window times exp(-r · (key - centre)²), or None.

        Its row numbers are `LocalRows`; the rate of a softmax that does not fade is 0.
        """
        return None


class Short(NamedTuple):
    """Keys and values after a memory shortened them, and the mask and places of the slots."""

    key: Float[Tensor, "b h s d"]
    value: Float[Tensor, "b h s dv"]
    mask: Pattern
    places: Places


@runtime_checkable
class Memory(ChainLink, Protocol):
    """Shortens keys and values to fewer slots before attention."""

    is_for_all_layers: bool = False
    """Whether all layers of a model share one memory."""

    def shorten(self, key: Keys, value: Values, mask: Pattern, places: Places) -> Short:
        """Fewer keys and values, the slots of the memory."""

    def cannot_meet(self, other: object) -> str | None:
        """Refuse links that need single positions: a slot mixes many of them."""
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

    def to_scores(self, query: Queries, places: Places) -> Float[Tensor, "1 1"]:
        """One zero for all pairs."""
        return query.new_zeros(1, 1)


NO_RELATION = NoRelation()


def largest_negative(scores: Float[Tensor, "*b"]) -> float:
    """The value of masked scores: finite, so that an empty row has finite gradients."""
    return torch.finfo(scores.dtype).min


def keys_that_exist(valid: Bool[Tensor, "b k"], n_keys: int) -> Bool[Tensor, "b n"]:
    """A padding mask cut to the number of keys; a shorter mask is an error."""
    if valid.shape[-1] < n_keys:
        raise ShapeError(
            f"mask: padding speaks of {valid.shape[-1]} keys, but there are {n_keys}. Pass the "
            "padded length: padding(lengths, n_keys)."
        )
    return valid[:, :n_keys]


def wide(numbers: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """The tensor in at least single precision: half is too coarse for sums and positions."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def log_normaliser(scores: Scores, mask: Mask) -> RowNumber:
    """Logarithm of the sum of exponentials over the visible keys of each row."""
    scores = wide(scores)
    return scores.masked_fill(~mask, largest_negative(scores)).logsumexp(-1, keepdim=True)


def normalised(scores: Scores, mask: Mask, lse: RowNumber) -> Weights:
    """exp(score - lse) where visible, else exactly 0."""
    exact = wide(scores)
    shown = exact.masked_fill(~mask, largest_negative(exact))
    return (shown - lse).exp().to(scores.dtype) * mask
