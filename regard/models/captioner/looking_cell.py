"""One step of the LSTM that looks: at the picture and at the word, one after the other.

    α = softmax_i(v · tanh(W_a q + U a[i] + c_a)),   z = β ẑ,   β = σ(w_β · q + b_β)
    before   q = h,    h', c' = LSTM([E y; z], h, c)
    after    q = h',   h', c' = LSTM(E y, h, c)

Before it reads a word, the state looks, and the LSTM reads what it saw: it can remember the whole
picture after one look. After it has read, the new state looks: what it sees is there for one word
and is not remembered, so that each word needs a look of its own.

All that is done in a step is here: tensors and nothing else come in and go out, for a compiler.

Paper: Xu et al. 2015, equations 1 to 6 and section 4.2.1 (before); Lu et al. 2017, section 2.2
(after: their spatial attention), here with the score and the gate of the former.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast, final, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.scores.additive import AdditiveScore
from regard.dims import Dims
from regard.layers.recurrent import RECURRENCES, Cells, LayerStep, RecurrentCells
from regard.models.captioner.focus import Focus, Focused


class Memory(NamedTuple):
    """A picture, once for all rows that write about it."""

    key: Float[Tensor, "b 1 l p"]
    """U a + c."""
    value: Float[Tensor, "b l d"]

    def select(self, pictures: Int[Tensor, " b"]) -> "Memory":
        """Some of the pictures."""
        return Memory(*(each.index_select(0, pictures) for each in self))


class Stepped(NamedTuple):
    """What one step did."""

    cells: Cells
    """What it remembers."""
    query: Float[Tensor, "r n"]
    """The state that looked."""
    gate: Float[Tensor, "r 1"]
    seen: Float[Tensor, "r d"]
    """What it let in."""
    focused: Focused
    read: tuple[tuple[Tensor, Tensor], ...]
    """What the LSTM read: its input and its state."""

    @property
    def state(self) -> Float[Tensor, "r n"]:
        """The state that speaks."""
        return self.cells[-1][0]


@runtime_checkable
class Look(Protocol):
    """When a step looks, and whether the LSTM reads what was seen."""

    is_read: bool
    """Whether the LSTM reads it."""

    def __call__(
        self,
        cell: "LookingCell",
        cells: Cells,
        memory: Memory,
        lots: Bool[Tensor, " r"] | None,
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """Do both; see the cell."""


@final
class LookBefore:
    """Look, then read the word and what was seen."""

    is_read = True

    def __call__(
        self,
        cell: "LookingCell",
        cells: Cells,
        memory: Memory,
        lots: Bool[Tensor, " r"] | None,
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """The state before the word looks."""
        query = cells[-1][0]
        focused, gate, seen = cell.look(query, memory, lots)
        after, read = cell.cells.step(seen, cells, now)
        return Stepped(after, query, gate, seen, focused, read)


@final
class LookAfter:
    """Read the word, then look."""

    is_read = False

    def __call__(
        self,
        cell: "LookingCell",
        cells: Cells,
        memory: Memory,
        lots: Bool[Tensor, " r"] | None,
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """The state that has read the word looks."""
        nothing = cells[-1][0][:, :0]
        after, read = cell.cells.step(nothing, cells, now)
        query = after[-1][0]
        focused, gate, seen = cell.look(query, memory, lots)
        return Stepped(after, query, gate, seen, focused, read)


LOOKS: Mapping[str, Look] = {"before": LookBefore(), "after": LookAfter()}
"""What `model.look` may name."""


@final
class LookingCell(nn.Module):
    """An LSTM's step with a look.

    Args:
        when: whether it looks before it reads the word, or after.
        focus: how a look becomes weights.
        d_embedding: width of a word.
        d_annotation: width of an annotation.
        d_hidden: width of the LSTM.
        d_attention: inner width of the score.
    """

    def __init__(
        self,
        *,
        when: Look,
        focus: Focus,
        d_embedding: int,
        d_annotation: int,
        d_hidden: int,
        d_attention: int,
    ) -> None:
        super().__init__()
        self.when = when
        dims = Dims(d_model=d_hidden, d_key=d_annotation)
        self.score = AdditiveScore(dims, d_hidden=d_attention, has_bias=True)
        self.focus, self.gate = focus, nn.Linear(d_hidden, 1)
        self.cells = RecurrentCells(
            RECURRENCES["lstm"],
            d_known=d_embedding,
            d_more=d_annotation if when.is_read else 0,
            d_hidden=d_hidden,
            n_layers=1,
        )

    def remember(self, annotations: Float[Tensor, "b l d"]) -> Memory:
        """Do once for a picture what can be done once."""
        key = annotations @ self.score.U[0] + cast(Tensor, self.score.c)
        return Memory(key[:, None], annotations)

    def forward(
        self,
        cells: Cells,
        memory: Memory,
        lots: Bool[Tensor, " r"] | None,
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """Look and read.

        Args:
            cells: what the step before remembers; rows of one picture stand side by side.
            memory: the pictures.
            lots: which rows take what is expected; see focus.
            now: the word's share of the gates.
        """
        return self.when(self, cells, memory, lots, now)

    def look(
        self, query: Float[Tensor, "r n"], memory: Memory, lots: Bool[Tensor, " r"] | None
    ) -> tuple[Focused, Float[Tensor, "r 1"], Float[Tensor, "r d"]]:
        """Where a state looks, how far its gate is open, and what it sees."""
        focused = self.focus(self._scores(query, memory), lots)
        context = (focused.weights.to(memory.value.dtype) @ memory.value).flatten(0, 1)
        gate = self.gate(query).sigmoid()
        return focused, gate, gate * context

    def _scores(self, query: Float[Tensor, "r n"], memory: Memory) -> Float[Tensor, "b w l"]:
        """Of each row with the cells of its picture: the score, in as few products as can be."""
        queries = (query @ self.score.W[0]).view(len(memory.value), -1, 1, memory.key.shape[-1])
        return (queries + memory.key).tanh_() @ self.score.v[0]
