"""Recurrent encoder: layers that read a sentence forwards, backwards, or both ways.

    h[j] = [fwd[j]; bwd[j]],   fwd[j] = f(x[j], fwd[j - 1]),   bwd[j] = f(x[j], bwd[j + 1])

However it was read, states stand in the order of the sentence. Every direction is handed its rows
with the padding in front, where it changes nothing, so that the kernel's last state is the last
word's forwards and the first word's backwards.

Paper: Schuster & Paliwal 1997; Sutskever, Vinyals & Le 2014, section 3.3 (reading backwards).
Cost: time O(n · d²) for each layer and direction, n steps one after another.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.layers.recurrent.cells import LayerState, Recurrence, RecurrentLayer


class Turns(NamedTuple):
    """For each row, how its padding goes from behind to the front, and back there."""

    to_front: Int[Tensor, "b n"]
    back: Int[Tensor, "b n"]

    @classmethod
    def of(cls, valid: Bool[Tensor, "b n"]) -> "Turns":
        """Of rows whose padding stands behind."""
        n = valid.shape[1]
        at, length = torch.arange(n, device=valid.device), valid.sum(1, keepdim=True)
        return cls((at + length) % n, (at - length) % n)


@runtime_checkable
class Direction(Protocol):
    """A way to read."""

    def read(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """The rows in the order in which they are read, padding first."""

    def back(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """What was read in the order of the sentence, padding last."""


@final
class Forwards:
    """The first word first."""

    def read(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """The padding goes to the front."""
        return _picked(x, turns.to_front)

    def back(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """The padding goes behind again."""
        return _picked(x, turns.back)


@final
class Backwards:
    """The last word first; the padding behind it comes even before."""

    def read(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """The whole row turned round."""
        return x.flip(1)

    def back(self, x: Float[Tensor, "b n d"], turns: Turns) -> Float[Tensor, "b n d"]:
        """Turned round again."""
        return x.flip(1)


DIRECTIONS: Mapping[str, Direction] = {"forwards": Forwards(), "backwards": Backwards()}
"""Ways to read; an encoder has one or both."""


class Encoded(NamedTuple):
    """What an encoder read."""

    states: Float[Tensor, "b n m"]
    """The highest layer's, all directions side by side; zeros for padding."""
    last: tuple[Mapping[str, LayerState], ...]
    """What each layer remembers at the end, for each direction."""


@final
class RecurrentEncoder(nn.Module):
    """Stacked layers, each of which reads what the layer below said in all directions.

    Args:
        recurrence: the kind of state.
        d_input: width of what is read.
        d_hidden: width of a layer's state in one direction.
        n_layers: how many there are.
        reads: the directions, by their names.
        dropout: on what goes into a layer, but for the lowest.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        *,
        d_input: int,
        d_hidden: int,
        n_layers: int,
        reads: Sequence[str] = ("forwards",),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reads, self.d_states = tuple(reads), len(reads) * d_hidden
        widths = [d_input, *[self.d_states] * (n_layers - 1)]
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    name: RecurrentLayer(recurrence, d_input=width, d_hidden=d_hidden)
                    for name in self.reads
                }
            )
            for width in widths
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "b n d"], valid: Bool[Tensor, "b n"]) -> Encoded:
        """Read rows whose padding, if any, stands behind.

        Args:
            x: what is read.
            valid: True for what is there.
        """
        turns, there = Turns.of(valid), valid.unsqueeze(-1).to(x.dtype)
        ways = {name: DIRECTIONS[name] for name in self.reads}
        marks = {name: way.read(there, turns) for name, way in ways.items()}
        last: list[Mapping[str, LayerState]] = []
        # states of padding are zeros, so that only the words have to be told apart from it
        x = x * there
        for i, layer in enumerate(cast(Sequence[nn.ModuleDict], self.layers)):
            x = self.dropout(x) if i else x
            said, ends = [], {}
            for name, way in ways.items():
                states, ends[name] = layer[name](way.read(x, turns), None, marks[name])
                said.append(way.back(states, turns))
            x = said[0] if len(said) == 1 else torch.cat(said, -1)
            last.append(ends)
        return Encoded(x, tuple(last))


def _picked(x: Float[Tensor, "b n d"], at: Int[Tensor, "b n"]) -> Float[Tensor, "b n d"]:
    return x.gather(1, at[..., None].expand(-1, -1, x.shape[-1]))
