"""Attention cell: one step of the captioning LSTM, which attends to the picture and reads the word.

    α = softmax_i(v · act(W_a q + U a[i] + c_a)),   z = β ẑ,   β = σ(w_β · q + b_β)
    before   q = h,    h', c' = LSTM([E y; z], h, c)
    after    q = h',   h', c' = LSTM(E y, h, c)

With `before`, the old state attends and the LSTM reads the context, so that it can remember the
whole picture after one step. With `after`, the new state attends; its context serves one word and
is not remembered, so that each word needs attention of its own.

A step takes and returns tensors only, so that torch.compile can compile it whole.

Paper: Xu et al. 2015, equations 1 to 6 and section 4.2.1 (before); Lu et al. 2017, section 2.2
(after: their spatial attention), here with the score and the gate of the former.
"""

from typing import NamedTuple, cast, final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.scores.additive import AdditiveScore
from regard.dims import Dims
from regard.layers.recurrent import RECURRENCES, Cells, LayerStep, RecurrentCells
from regard.models.captioner.focus import FOCUSES, Focused
from regard.models.captioner.spec import CaptionerSpec
from regard.models.shapes import Annotations


class PictureMemory(NamedTuple):
    """A picture's projected keys and annotations, shared by all rows that describe it."""

    key: Float[Tensor, "b 1 l p"]
    """U a + c."""
    value: Annotations


class AttentionStep(NamedTuple):
    """The results of one step."""

    cells: Cells
    """The new state of the LSTM."""
    query: Float[Tensor, "r n"]
    """The state that attended."""
    gate: Float[Tensor, "r 1"]
    seen: Float[Tensor, "r d"]
    """The gated context."""
    focused: Focused
    read: tuple[tuple[Tensor, Tensor], ...]
    """The input of the LSTM and the state before it."""

    @property
    def state(self) -> Float[Tensor, "r n"]:
        """The new hidden state, which the output layer reads."""
        return self.cells[-1][0]


@final
class AttentionLstmCell(nn.Module):
    """An LSTM step with attention before or after it reads the word."""

    def __init__(self, spec: CaptionerSpec, d_annotation: int) -> None:
        super().__init__()
        self.looks_first, d_hidden = spec.look == "before", spec.d_hidden
        dims = Dims(d_model=d_hidden, d_key=d_annotation)
        d_attention = spec.d_attention or d_annotation
        self.score = AdditiveScore(
            dims, d_hidden=d_attention, activation=spec.activation, has_bias=True
        )
        self.focus, self.gate = FOCUSES[spec.select](spec), nn.Linear(d_hidden, 1)
        self.cells = RecurrentCells(
            RECURRENCES["lstm"],
            d_known=spec.d_embedding,
            d_more=d_annotation if self.looks_first else 0,
            d_hidden=d_hidden,
            n_layers=1,
        )

    def remember(self, annotations: Annotations) -> PictureMemory:
        """Project a picture's keys once for all steps."""
        key = annotations @ self.score.U[0] + cast(Tensor, self.score.c)
        return PictureMemory(key[:, None], annotations)

    def forward(
        self,
        cells: Cells,
        memory: PictureMemory,
        expectation_rows: Bool[Tensor, " r"] | None,
        now: tuple[LayerStep, ...],
    ) -> AttentionStep:
        """Attend and read, given the rows that take expectations and the word's part of the gates.

        Rows of one picture are adjacent.
        """
        query = cells[-1][0]
        if self.looks_first:
            focused, gate, seen = self._attend(query, memory, expectation_rows)
            after, read = self.cells.step(seen, cells, now)
        else:
            after, read = self.cells.step(query[:, :0], cells, now)
            query = after[-1][0]
            focused, gate, seen = self._attend(query, memory, expectation_rows)
        return AttentionStep(after, query, gate, seen, focused, read)

    def _attend(
        self,
        query: Float[Tensor, "r n"],
        memory: PictureMemory,
        expectation_rows: Bool[Tensor, " r"] | None,
    ) -> tuple[Focused, Float[Tensor, "r 1"], Float[Tensor, "r d"]]:
        """The weights of a state, its gate, and its context."""
        queries = (query @ self.score.W[0]).view(len(memory.value), -1, 1, memory.key.shape[-1])
        # the additive score in as few products as possible
        pairs = self.score.activation(queries + memory.key)
        focused = self.focus(pairs @ self.score.v[0], expectation_rows)
        context = (focused.weights.to(memory.value.dtype) @ memory.value).flatten(0, 1)
        gate = self.gate(query).sigmoid()
        return focused, gate, gate * context
