"""The decoder of Show, Attend and Tell: an LSTM that looks at the picture before every word.

    ā = mean of a[i],   h[0] = f_h(ā),   c[0] = f_c(ā),   f(x) = tanh(W relu(W' x))
    z[t] = what h[t-1] sees,   h[t], c[t] = LSTM([E y[t-1]; z[t]], h[t-1], c[t-1])
    logits = L_o tanh(E y[t-1] + L_h h[t] + L_z z[t] + b)

The state before the word looks; the new one speaks, with what was seen. U a[i] of the score is made
once for a picture, and the words' share of the gates once for a caption.

An LSTM that can remember an object after one look says the rest of it from memory, and looks
anywhere. Three choices, none of them in the paper, make the words depend on their own looks:

    look = "after"       z[t] is what h[t] sees, and the LSTM does not read it (looking_cell.py)
    readout = "seen"     logits = L_o tanh(E y[t-1] + L_z z[t] + b): the state does not speak
    state_dropout = p    in training h[t] speaks with m[t] h[t], m[t] ~ Bernoulli(1 - p), all of
                         it or nothing of it; otherwise as it is

Where the paper and its authors' code differ, the code is followed: the tanh before L_o is not in
the paper, nor are the layers of the score and of f. Elsewhere this differs from both: the first
word read is the begin token, with an embedding of its own, where they read a vector of zeros; and
the forget gate begins open, with a bias of 1. Dropout is theirs: inside f, on h[t] where it
speaks, and on the tanh.

Paper: Xu et al. 2015, sections 3.1.2 and 4.2.1, equations 1 to 7.
Cost: time O(t · l · d_attention) for a caption, beside an LSTM's.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap, attend
from regard.attention.dropout import Dropout
from regard.layers.recurrent import Cells
from regard.models.captioner.focus import Chance, Focus, Watched
from regard.models.captioner.looking_cell import Look, LookingCell, Memory, Stepped
from regard.models.captioner.readout import StateDropout
from regard.models.learner import Lesson, LessonWithExtra, shifted
from regard.models.stepper import PAD, rows_of


class LstmState(NamedTuple):
    """What decoding remembers: the pictures, and what each row carries on."""

    memory: Memory
    cells: Cells

    @property
    def n_rows(self) -> int:
        """Rows of all pictures together."""
        return len(self.cells[0][0])

    @property
    def width(self) -> int:
        """How many rows a picture has."""
        return self.n_rows // len(self.memory.value)

    def rows(self, rows: Int[Tensor, " r"]) -> Cells:
        """What some rows carry on."""
        return tuple(tuple(each.index_select(0, rows) for each in layer) for layer in self.cells)


@final
class LstmDecoder(nn.Module):
    """Writes a caption with one look at the picture before each word.

    Args:
        embedding: embeds the words.
        look: whether it looks before it reads a word, or after.
        focus: how a look becomes weights, and how it learns where.
        speaks: makes L_h, the state's part in what is said, of the widths of both.
        d_annotation: width of an annotation.
        d_hidden: width of the LSTM.
        d_attention: inner width of the score.
        dropout: see above.
        state_dropout: how likely the state has no part in a word, in training.
    """

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        look: Look,
        focus: Focus,
        speaks: Callable[[int, int], nn.Module],
        d_annotation: int,
        d_hidden: int,
        d_attention: int,
        dropout: float,
        state_dropout: float,
    ) -> None:
        super().__init__()
        m = embedding.embedding_dim
        self.embedding, self.dropout = embedding, Dropout(dropout)
        self.f_h, self.f_c = (
            nn.Sequential(
                nn.Linear(d_annotation, d_annotation),
                nn.ReLU(),
                Dropout(dropout),
                nn.Linear(d_annotation, d_hidden),
                nn.Tanh(),
            )
            for _ in range(2)
        )
        self.cell = LookingCell(
            when=look,
            focus=focus,
            d_embedding=m,
            d_annotation=d_annotation,
            d_hidden=d_hidden,
            d_attention=d_attention,
        )
        self.state_dropout, self.L_h = StateDropout(state_dropout), speaks(d_hidden, m)
        self.L_z = nn.Linear(d_annotation, m)

    def hidden(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        return self.step(self.start(annotations), target)[0]

    def lesson(self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for; in training the loss may ask where it was looked."""
        if not self.training:
            return Lesson(self.hidden(annotations, shifted(target)), target)
        focus, state = self.cell.focus, self.start(annotations)
        gold = target.repeat_interleave(focus.n_readings, 0)
        each = torch.arange(len(target), device=target.device).repeat_interleave(focus.n_readings)
        word = self.embedding(shifted(gold))
        steps = self._steps(word, LstmState(state.memory, state.rows(each)))
        said, extra = self._said(word, steps), focus.extra(_watched(steps, gold))
        return Lesson(said, gold) if extra is None else LessonWithExtra(said, gold, extra)

    def maps(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """The softmax of every step's scores, under "cross"; of hard focus it is the same."""
        steps = self._steps(self.embedding(target), self.start(annotations))
        query, value = torch.stack([step.query for step in steps], 1)[:, None], annotations[:, None]
        return {"cross": (attend(query, value, value, score=self.cell.score).map,)}

    def gates(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t"]:
        """β: near 0 where a word needs no look."""
        steps = self._steps(self.embedding(target), self.start(annotations))
        return torch.cat([step.gate for step in steps], 1)

    def start(self, annotations: Float[Tensor, "b l d"]) -> LstmState:
        """Read the picture: its keys, and what it makes the LSTM begin with."""
        mean = annotations.mean(1)
        return LstmState(self.cell.remember(annotations), ((self.f_h(mean), self.f_c(mean)),))

    def step(
        self, state: LstmState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t m"], LstmState]:
        """What the output layer reads after each new token."""
        word = self.embedding(tokens)
        steps = self._steps(word, state)
        return self._said(word, steps), LstmState(state.memory, steps[-1].cells)

    def select(self, state: LstmState, rows: Int[Tensor, " r"]) -> LstmState:
        """The state of some rows, all or none of a picture's, each with its picture."""
        pictures = rows[:: state.width] // state.width
        return LstmState(state.memory.select(pictures), state.rows(rows))

    def branch(self, state: LstmState, parents: Int[Tensor, "b w"]) -> LstmState:
        """Go on in w rows a picture; the picture stays where it is."""
        return LstmState(state.memory, state.rows(rows_of(parents, state.n_rows)))

    def repeated(self) -> Iterator[nn.Module]:
        """The step."""
        yield self.cell

    def _steps(self, word: Float[Tensor, "r t m"], state: LstmState) -> list[Stepped]:
        """One step after another."""
        (memory, cells), ahead, done = state, self.cell.cells.steps(word), []
        lots = self.cell.focus.lots(len(word), word.device)
        for now in ahead:
            done.append(self.cell(cells, memory, lots, now))
            cells = done[-1].cells
            ahead.saw(done[-1].read)
        return done

    def _said(self, word: Float[Tensor, "r t m"], steps: list[Stepped]) -> Float[Tensor, "r t m"]:
        """The deep output, of all steps at once."""
        state = self.dropout(torch.stack([step.state for step in steps], 1))
        state = self.state_dropout(state)
        seen = torch.stack([step.seen for step in steps], 1)
        return self.dropout((word + self.L_h(state) + self.L_z(seen)).tanh())


def _watched(steps: list[Stepped], gold: Int[Tensor, "r t"]) -> Watched:
    """Where captions have looked; whatever stands after their end is left out."""
    drawn = zip(*(step.focused.chance for step in steps if step.focused.chance), strict=True)
    chance = [torch.stack(each, 1) for each in drawn]
    return Watched(
        torch.stack([step.focused.likely for step in steps], 1),
        Chance(*chance) if chance else None,
        gold != PAD,
    )
