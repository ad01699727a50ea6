"""Recurrent decoders: one that runs all steps at once, and one whose steps wait for each other.

    current     h[t] = cells(E y[t], fed),  c[t] = look(h[t]),  fed = readout(c[t], h[t])
    previous    c[t] = look(h[t-1]),  h[t] = cells(E y[t], c[t], fed)

Steps wait where a step needs what the one before it saw: the readout that is fed back, the context
of the previous state, or the weights that cover the source. The words' share of the gates never
waits, and neither does a readout that is not fed.

Paper: Luong, Pham & Manning 2015, section 3 (current) and 3.3 (input feeding); Bahdanau, Cho &
Bengio 2015, section 3.1 (previous).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.attention.dropout import Dropout
from regard.layers.recurrent import Cells, LayerStep, Readout, RecurrentCells
from regard.models.recurrent.attention import Look, Memory, NoLook


class Carried(NamedTuple):
    """What one step of a row hands to the next."""

    cells: Cells
    fed: Float[Tensor, "r f"]
    """The last readout; of no width where it is not fed."""
    covered: Float[Tensor, "r c"]
    """The weight each source word has received; of no width where nobody asks."""

    def select(self, rows: Int[Tensor, " r"]) -> "Carried":
        """Of some rows."""
        cells = tuple(tuple(x.index_select(0, rows) for x in layer) for layer in self.cells)
        fed, covered = (x.index_select(0, rows) for x in (self.fed, self.covered))
        return Carried(cells, fed, covered)


class Source(NamedTuple):
    """What a decoder is given of a source."""

    states: Float[Tensor, "b s m"]
    visible: Bool[Tensor, "b s"]
    """What may be looked at."""
    cells: Cells
    """What the decoder remembers before its first word."""


class Stepped(NamedTuple):
    """What one step did."""

    carried: Carried
    query: Float[Tensor, "r d"]
    """The state that looked."""
    context: Float[Tensor, "r m"]
    """What it saw."""
    state: Float[Tensor, "r d"]
    """The new state."""
    read: tuple[tuple[Tensor, Tensor], ...]
    """What each layer read: its input and its state."""


@final
class Says(nn.Module):
    """A readout, some of which is dropped in training."""

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
class LooksAfter(nn.Module):
    """One step that reads the word first, and looks with the state that has read it.

    Args:
        cells: the decoder's layers.
        look: what looks at the source.
        says: the readout.
        feeds: whether the readout is read by the next step.
    """

    def __init__(self, *, cells: RecurrentCells, look: Look, says: Says, feeds: bool) -> None:
        super().__init__()
        self.cells, self.look, self.says, self.feeds = cells, look, says, feeds

    def forward(
        self,
        word: Float[Tensor, "r e"],
        carried: Carried,
        memory: Memory,
        at: Int[Tensor, "1 1"],
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """Read, then look."""
        cells, read = self.cells.step(carried.fed, carried.cells, now)
        state = cells[-1][0]
        context, covered = self.look(state[:, None], memory, carried.covered, at)
        context = context[:, 0]
        fed = self.says(context, state, word) if self.feeds else carried.fed
        return Stepped(Carried(cells, fed, covered), state, context, state, read)


@final
class LooksBefore(nn.Module):
    """One step that looks first, with the state of the step before, and reads what it saw.

    Args:
        cells: the decoder's layers.
        look: what looks at the source.
        says: the readout.
        feeds: whether the readout is read by the next step.
    """

    def __init__(self, *, cells: RecurrentCells, look: Look, says: Says, feeds: bool) -> None:
        super().__init__()
        self.cells, self.look, self.says, self.feeds = cells, look, says, feeds

    def forward(
        self,
        word: Float[Tensor, "r e"],
        carried: Carried,
        memory: Memory,
        at: Int[Tensor, "1 1"],
        now: tuple[LayerStep, ...],
    ) -> Stepped:
        """Look, then read."""
        query = carried.cells[-1][0]
        context, covered = self.look(query[:, None], memory, carried.covered, at)
        context = context[:, 0]
        more = torch.cat([context, carried.fed.to(context.dtype)], -1)
        cells, read = self.cells.step(more, carried.cells, now)
        state = cells[-1][0]
        fed = self.says(context, state, word) if self.feeds else carried.fed
        return Stepped(Carried(cells, fed, covered), query, context, state, read)


FeedingCell = LooksAfter | LooksBefore

FEEDING_CELLS: Mapping[str, Callable[..., FeedingCell]] = {
    "current": LooksAfter,
    "previous": LooksBefore,
}
"""Which state looks at the source: what `model.attends` may name, but for "none"."""


@final
class SteppingDecoder(nn.Module):
    """One step after another; its cell is all that is done in a step."""

    def __init__(self, cell: FeedingCell) -> None:
        super().__init__()
        self.cell = cell

    def repeated(self) -> Iterator[nn.Module]:
        """What runs over and over, and is worth compiling."""
        yield self.cell

    def remember(self, source: Source) -> Memory:
        """The source, for as many steps as will come."""
        return self.cell.look.remember(source.states, source.visible)

    def begin(self, source: Source) -> Carried:
        """Before the first word nothing is fed and nothing covered."""
        width = self.cell.says.width if self.cell.feeds else 0
        fed = source.states.new_zeros(len(source.states), width)
        return Carried(source.cells, fed, self.cell.look.nothing_covered(source.states))

    def forward(self, word: Float[Tensor, "b t e"], source: Source) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each word."""
        return self.step(word, self.remember(source), self.begin(source), past=0)[0]

    def step(
        self, word: Float[Tensor, "r t e"], memory: Memory, carried: Carried, *, past: int
    ) -> tuple[Float[Tensor, "r t m"], Carried]:
        """Go on with some words; `past` have been read before."""
        steps = self._steps(word, memory, carried, past)
        if self.cell.feeds:
            said = torch.stack([step.carried.fed for step in steps], 1)
        else:
            context, state = (
                torch.stack([getattr(step, name) for step in steps], 1)
                for name in ("context", "state")
            )
            said = self.cell.says(context, state, word)
        return said, steps[-1].carried

    def map(self, word: Float[Tensor, "b t e"], source: Source) -> tuple[AttentionMap, ...]:
        """The map of all steps, from the queries that they asked."""
        begin = self.begin(source)
        steps = self._steps(word, self.remember(source), begin, 0)
        before = [begin, *(step.carried for step in steps[:-1])]
        return self.cell.look.map(
            torch.stack([step.query for step in steps], 1),
            source.states,
            source.visible,
            torch.stack([carried.covered for carried in before], 1),
        )

    def _steps(
        self, word: Float[Tensor, "r t e"], memory: Memory, carried: Carried, past: int
    ) -> list[Stepped]:
        all_steps, done = self.cell.cells.steps(word), []
        at = torch.arange(past, past + word.shape[1], device=word.device)[:, None, None]
        for now, each, here in zip(all_steps, word.unbind(1), at.unbind(0), strict=True):
            done.append(self.cell(each, carried, memory, here, now))
            carried = done[-1].carried
            all_steps.saw(done[-1].read)
        return done


@final
class AtOnceDecoder(nn.Module):
    """All steps at once: the cells read nothing but words, and then every state looks.

    Args:
        cells: the decoder's layers.
        look: what looks at the source, if anything does.
        says: the readout.
    """

    def __init__(self, *, cells: RecurrentCells, look: Look | NoLook, says: Says) -> None:
        super().__init__()
        self.cells, self.look, self.says = cells, look, says

    def repeated(self) -> Iterator[nn.Module]:
        """Nothing runs over and over: torch's own loop has the steps."""
        yield from ()

    def remember(self, source: Source) -> Memory:
        """The source, for as many steps as will come."""
        return self.look.remember(source.states, source.visible)

    def begin(self, source: Source) -> Carried:
        """Nothing is fed, and nothing covered."""
        fed = source.states.new_zeros(len(source.states), 0)
        return Carried(source.cells, fed, self.look.nothing_covered(source.states))

    def forward(self, word: Float[Tensor, "b t e"], source: Source) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each word."""
        state, _ = self.cells(word, source.cells)
        return self.says(self.look.all(state, source.states, source.visible), state, word)

    def step(
        self, word: Float[Tensor, "r t e"], memory: Memory, carried: Carried, *, past: int
    ) -> tuple[Float[Tensor, "r t m"], Carried]:
        """Go on with some words; `past` have been read before."""
        state, cells = self.cells(word, carried.cells)
        at = torch.arange(past, past + word.shape[1], device=word.device)[:, None]
        context, covered = self.look(state, memory, carried.covered, at)
        return self.says(context, state, word), Carried(cells, carried.fed, covered)

    def map(self, word: Float[Tensor, "b t e"], source: Source) -> tuple[AttentionMap, ...]:
        """The map of all steps; none if nobody looks."""
        state, _ = self.cells(word, source.cells)
        covered = state[..., :0]
        return self.look.map(state, source.states, source.visible, covered)
