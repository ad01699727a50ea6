"""Recurrent decoders: one runs all steps at once, and the other one step after another.

    current     h[t] = cells(E y[t], fed),  c[t] = look(h[t]),  fed = readout(c[t], h[t])
    previous    c[t] = look(h[t-1]),  h[t] = cells(E y[t], c[t], fed)

Steps run in sequence if a step needs results of the attention before it: the readout that is fed
back, the context of the previous state, or the coverage. The words' part of the gates is always
computed for all steps at once, and so is a readout that is not fed back.

Paper: Luong, Pham & Manning 2015, section 3 (current) and 3.3 (input feeding); Bahdanau, Cho &
Bengio 2015, section 3.1 (previous).
"""

from collections.abc import Iterator
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.attention.dropout import Dropout
from regard.layers.recurrent import Cells, LayerStep, Readout, RecurrentCells
from regard.models.recurrent.attention import Source, SourceAttention, SourceMemory
from regard.models.shapes import NewStates, States
from regard.models.stepper import DecodingState

WordVectors = Float[Tensor, "r t e"]


class RowState(NamedTuple):
    """The state that one step of a row passes to the next."""

    cells: Cells
    fed: Float[Tensor, "r f"]
    """The last readout; of zero width if it is not fed."""
    covered: Float[Tensor, "r c"]
    """The weight that each source word has received; of zero width without coverage."""


class DecoderStep(NamedTuple):
    """The results of one step."""

    after: RowState
    query: Float[Tensor, "r d"]
    """The state that attended."""
    context: Float[Tensor, "r m"]
    """The context."""
    state: Float[Tensor, "r d"]
    """The new state."""
    read: tuple[tuple[Tensor, Tensor], ...]
    """The input and the state that each layer read."""


@final
class DroppedReadout(nn.Module):
    """A readout with dropout."""

    def __init__(self, readout: Readout, dropout: float) -> None:
        super().__init__()
        self.readout, self.dropout, self.width = readout, Dropout(dropout), readout.width

    def forward(
        self,
        context: Float[Tensor, "*b c"],
        state: Float[Tensor, "*b d"],
        word: Float[Tensor, "*b e"],
    ) -> Float[Tensor, "*b m"]:
        """What the output layer reads."""
        return self.dropout(self.readout(context, state, word))


@final
class DecoderCell(nn.Module):
    """One step: it reads the word and attends with the new state, or attends first, with the old.

    If the old state attends, the cells read its context with the word. With `feeds` the next step
    reads this one's readout.
    """

    def __init__(
        self,
        *,
        cells: RecurrentCells,
        look: SourceAttention,
        readout: DroppedReadout,
        feeds: bool,
        looks_first: bool,
    ) -> None:
        super().__init__()
        # `says` is part of the names in saved weights
        self.cells, self.look, self.says = cells, look, readout
        self.feeds, self.looks_first = feeds, looks_first

    def forward(
        self,
        word: Float[Tensor, "r e"],
        before: RowState,
        memory: SourceMemory,
        at: Int[Tensor, "1 1"],
        now: tuple[LayerStep, ...],
    ) -> DecoderStep:
        """Take the step of one word, whose part of the gates is in `now`."""
        if self.looks_first:
            query = before.cells[-1][0]
            context, covered = self._seen(query, before, memory, at)
            more = torch.cat([context, before.fed.to(context.dtype)], -1)
            cells, read = self.cells.step(more, before.cells, now)
        else:
            cells, read = self.cells.step(before.fed, before.cells, now)
            query = cells[-1][0]
            context, covered = self._seen(query, before, memory, at)
        state = cells[-1][0]
        fed = self.says(context, state, word) if self.feeds else before.fed
        return DecoderStep(RowState(cells, fed, covered), query, context, state, read)

    def _seen(
        self, query: Tensor, before: RowState, memory: SourceMemory, at: Tensor
    ) -> tuple[Float[Tensor, "r m"], Float[Tensor, "r c"]]:
        looked = self.look(query[:, None], memory, before.covered, at)
        return looked.context[:, 0], looked.covered


@final
class SteppingDecoder(nn.Module):
    """Runs one step after another; all work of a step is in its cell."""

    def __init__(self, cell: DecoderCell) -> None:
        super().__init__()
        self.cell = cell

    def repeated(self) -> Iterator[nn.Module]:
        """The cell, which runs at every step and is worth compiling."""
        yield self.cell

    def start(self, source: Source) -> DecodingState:
        """Before the first word the fed readout and the coverage are zeros."""
        look, states = self.cell.look, source.states
        fed = states.new_zeros(len(states), self.cell.says.width if self.cell.feeds else 0)
        rows = RowState(source.cells, fed, look.nothing_covered(states))
        return DecodingState(look.remember(source), rows)

    def forward(self, word: WordVectors, source: Source) -> States:
        """What the output layer reads after each word."""
        return self.step(word, self.start(source))[0]

    def step(self, word: WordVectors, state: DecodingState) -> tuple[NewStates, DecodingState]:
        """Go on with some words."""
        steps = self._steps(word, state)
        if self.cell.feeds:
            said = torch.stack([step.after.fed for step in steps], 1)
        else:
            context = torch.stack([step.context for step in steps], 1)
            states = torch.stack([step.state for step in steps], 1)
            said = self.cell.says(context, states, word)
        return said, DecodingState(state.source, steps[-1].after, state.length + word.shape[1])

    def map(self, word: WordVectors, source: Source) -> tuple[AttentionMap, ...]:
        """The map of all steps, from their queries."""
        begin = self.start(source)
        steps = self._steps(word, begin)
        before = [begin.rows, *(step.after for step in steps[:-1])]
        query = torch.stack([step.query for step in steps], 1)
        return self.cell.look.map(query, source, torch.stack([row.covered for row in before], 1))

    def _steps(self, word: WordVectors, state: DecodingState) -> list[DecoderStep]:
        memory, rows, past = state
        steps, done = self.cell.cells.steps(word), []
        at = torch.arange(past, past + word.shape[1], device=word.device)[:, None, None]
        for now, each, here in zip(steps, word.unbind(1), at.unbind(0), strict=True):
            done.append(self.cell(each, rows, memory, here, now))
            rows = done[-1].after
            steps.saw(done[-1].read)
        return done


@final
class AtOnceDecoder(nn.Module):
    """Runs all steps at once: the cells read words alone, and then every state attends.

    Without attention, only the first state depends on the source, and contexts have zero width.
    """

    def __init__(
        self, *, cells: RecurrentCells, look: SourceAttention | None, readout: DroppedReadout
    ) -> None:
        super().__init__()
        # `says` is part of the names in saved weights
        self.cells, self.look, self.says = cells, look, readout

    def repeated(self) -> Iterator[nn.Module]:
        """No part is worth compiling: torch's fused kernels run all steps."""
        yield from ()

    def start(self, source: Source) -> DecodingState:
        """Before the first word; no readout is fed and no weight is covered."""
        nothing = source.states.new_zeros(len(source.states), 0)
        memory = nothing if self.look is None else self.look.remember(source)
        return DecodingState(memory, RowState(source.cells, nothing, nothing))

    def forward(self, word: WordVectors, source: Source) -> States:
        """What the output layer reads after each word."""
        state, _ = self.cells(word, source.cells)
        context = state[..., :0] if self.look is None else self.look.all(state, source)
        return self.says(context, state, word)

    def step(self, word: WordVectors, state: DecodingState) -> tuple[NewStates, DecodingState]:
        """Go on with some words."""
        memory, rows, past = state
        length = past + word.shape[1]
        states, cells = self.cells(word, rows.cells)
        context = states[..., :0]
        if self.look is not None:
            at = torch.arange(past, length, device=word.device)[:, None]
            context = self.look(states, memory, rows.covered, at).context
        after = DecodingState(memory, rows._replace(cells=cells), length)
        return self.says(context, states, word), after

    def map(self, word: WordVectors, source: Source) -> tuple[AttentionMap, ...]:
        """The map of all steps; none without attention."""
        if self.look is None:
            return ()
        state, _ = self.cells(word, source.cells)
        return self.look.map(state, source, state[..., :0])
