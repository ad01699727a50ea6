"""One step of the LSTM that looks: first at the picture, then at the word.

    α = softmax_i(v · tanh(W_a h + U a[i] + c_a)),   z = β ẑ,   β = σ(w_β · h + b_β)
    h', c' = LSTM([E y; z], h, c)

All that is done in a step is here: tensors and nothing else come in and go out, for a compiler.

Paper: Xu et al. 2015, equations 1 to 6 and section 4.2.1.
"""

from typing import NamedTuple, cast, final

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


@final
class LookingCell(nn.Module):
    """An LSTM's step with a look before it.

    Args:
        focus: how a look becomes weights.
        d_embedding: width of a word.
        d_annotation: width of an annotation.
        d_hidden: width of the LSTM.
        d_attention: inner width of the score.
    """

    def __init__(
        self,
        *,
        focus: Focus,
        d_embedding: int,
        d_annotation: int,
        d_hidden: int,
        d_attention: int,
    ) -> None:
        super().__init__()
        dims = Dims(d_model=d_hidden, d_key=d_annotation)
        self.score = AdditiveScore(dims, d_hidden=d_attention, has_bias=True)
        self.focus, self.gate = focus, nn.Linear(d_hidden, 1)
        self.cells = RecurrentCells(
            RECURRENCES["lstm"],
            d_known=d_embedding,
            d_more=d_annotation,
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
        """Look, then read.

        Args:
            cells: what the step before remembers; rows of one picture stand side by side.
            memory: the pictures.
            lots: which rows take what is expected; see focus.
            now: the word's share of the gates.
        """
        query = cells[-1][0]
        focused = self.focus(self._scores(query, memory), lots)
        context = (focused.weights.to(memory.value.dtype) @ memory.value).flatten(0, 1)
        gate = self.gate(query).sigmoid()
        seen = gate * context
        after, read = self.cells.step(seen, cells, now)
        return Stepped(after, query, gate, seen, focused, read)

    def _scores(self, query: Float[Tensor, "r n"], memory: Memory) -> Float[Tensor, "b w l"]:
        """Of each row with the cells of its picture: the score, in as few products as can be."""
        queries = (query @ self.score.W[0]).view(len(memory.value), -1, 1, memory.key.shape[-1])
        return (queries + memory.key).tanh_() @ self.score.v[0]
