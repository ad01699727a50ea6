"""Case: one attention to be computed, with its links, its tensors, and their lowered forms."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.links import (
    Dot,
    KernelMask,
    Memory,
    Pattern,
    Relation,
    Score,
    Selection,
    Threshold,
    Window,
)
from regard.attention.maps import AttentionMap
from regard.places import Places


@dataclass(kw_only=True, eq=False)
class Case:
    """All inputs of a path. Lowered forms are computed once, when the case is made.

    It is never modified; it is not a frozen dataclass, because making one costs a step of decoding
    as much as its kernel.
    """

    query: Float[Tensor, "b h q dq"]
    key: Float[Tensor, "b h k dk"]
    value: Float[Tensor, "b h k dv"]
    mask: Pattern
    places: Places
    score: Score
    relation: Relation
    select: Selection
    memory: Memory | None
    dropout: float
    """Share of the weights that is dropped in this call; 0 outside training."""
    columns: str = "keys"

    dot: Dot | None = field(init=False)
    """The score as a dot product, or None."""
    softmax: float | None = field(init=False)
    """The selection's inverse temperature if it is a softmax, or None."""
    window: Window | None = field(init=False)
    """The selection's window, or None."""
    threshold: Threshold | None = field(init=False)
    """The selection as a threshold of each row, or None."""
    kernel_mask: KernelMask | None = field(init=False)
    """The mask in the form of torch's kernels, or None."""

    def __post_init__(self) -> None:
        if not self.query.dtype == self.key.dtype == self.value.dtype:
            self._cast()
        self.dot = self.score.as_dot(self.query, self.key)
        if self.dot is not None and self.dot.query.dtype != self.value.dtype:
            # autocast makes the product of a score's own weights in its precision
            self.dot = self.dot._replace(query=self.dot.query.to(self.value.dtype))
        self.softmax = self.select.as_softmax()
        self.window = self.select.as_window()
        self.threshold = self.select.as_threshold()
        self.kernel_mask = self.mask.as_kernel()

    def _cast(self) -> None:
        """Autocast has made some tensors in its precision, such as a memory's: make the others."""
        device = self.query.device.type
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            self.query, self.key = self.query.to(dtype), self.key.to(dtype)
            self.value = self.value.to(dtype)

    def short(self) -> "Case":
        """The same case over the slots of its memory; itself if it has none."""
        if self.memory is None:
            return self
        short = self.memory.shorten(self.key, self.value, self.mask, self.places)
        return replace(
            self,
            key=short.key,
            value=short.value,
            mask=short.mask,
            places=short.places,
            memory=None,
            columns="memory slots",
        )

    @property
    def n_pairs(self) -> int:
        """Numbers in the whole matrix of weights, over batch and heads."""
        b, h, q, _ = self.query.shape
        return b * h * q * self.key.shape[-2]

    def attended(
        self, context: Tensor, rows: tuple[Tensor, ...], *, precision: torch.dtype | None = None
    ) -> Attended:
        """The result of a path: its context, and a map that rebuilds the weights.

        `precision` is the dtype of the path's scores, if it is not that of query and key.
        """
        see = partial(
            AttentionMap,
            query=self.query,
            key=self.key,
            rows=rows,
            places=self.places,
            mask=self.mask,
            score=self.score,
            relation=self.relation,
            select=self.select,
            columns=self.columns,
            precision=precision,
        )
        return Attended(context, see, rows, self.value)


class Cost(NamedTuple):
    """Work and memory of a path, besides inputs and outputs."""

    multiply_adds: int
    numbers: int
    """Numbers held at once in the forward pass."""


@runtime_checkable
class Path(Protocol):
    """One way of computing a chain exactly."""

    name: str

    def why_not(self, case: Case) -> str | None:
        """The reason this path cannot compute the case, or None if it can."""
        return None

    def why_slow(self, case: Case) -> str | None:
        """The reason a later path is faster for these sizes, or None if none is."""
        return None

    def why(self, case: Case) -> str:
        """Why this path fits, in a few words."""

    def cost(self, case: Case) -> Cost:
        """Work and memory of the forward pass."""

    def run(self, case: Case) -> Attended:
        """Compute it."""


def every_pair(case: Case) -> Cost:
    """The cost of computing and keeping the scores and weights of every pair."""
    width = case.query.shape[-1] + case.value.shape[-1]
    return Cost(multiply_adds=case.n_pairs * width, numbers=2 * case.n_pairs)


def not_softmax_of_dot(case: Case) -> str | None:
    """Why the fused kernels cannot take the chain's score and selection, or None."""
    if case.memory is not None:
        return "a memory shortens the keys first"
    if case.dot is None:
        return f"{type(case.score).__name__} is not a dot product of query and key"
    if case.softmax is None:
        return f"{type(case.select).__name__} is not a plain softmax of the scores"
    if case.dropout > 0:
        return "the kernels cannot drop attention weights"
    return None
