"""Readouts: make the output layer's input from a step's context c, state h and input word E y.

    attentional   tanh(W [c; h])                                the attentional vector
    maxout        max over pairs of  U h + V E y + C c          a deep output
    state         h                                             nothing in between

The state is the new one, which has read the word (and the context, if that is fed to the cells), as
the body of Bahdanau's paper has it; its appendix writes the state before. Without attention there
is no context, and its term is left out.

Paper: Luong, Pham & Manning 2015, equation 5; Bahdanau, Cho & Bengio 2015, appendix A.2.2.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import SettingError

Context = Float[Tensor, "*b c"]
State = Float[Tensor, "*b h"]
Word = Float[Tensor, "*b e"]
Read = Float[Tensor, "*b m"]


class Readout(nn.Module, ABC):
    """The interface: makes the output layer's input, of width `width`."""

    def __init__(self, *, d_context: int, d_hidden: int, d_embedding: int) -> None:
        super().__init__()
        self.width = self.width_of(d_hidden)

    @staticmethod
    def width_of(d_hidden: int) -> int:
        """The readout's width for a state's width; the same unless a subclass changes it."""
        return d_hidden

    @abstractmethod
    def forward(self, context: Context, state: State, word: Word) -> Read:
        """Read one step, or all steps at once."""


@final
class AttentionalReadout(Readout):
    """One layer over context and state."""

    def __init__(self, *, d_context: int, d_hidden: int, d_embedding: int) -> None:
        super().__init__(d_context=d_context, d_hidden=d_hidden, d_embedding=d_embedding)
        self.W = nn.Linear(d_context + d_hidden, d_hidden, bias=False)

    def forward(self, context: Context, state: State, word: Word) -> Read:
        """tanh(W [c; h])."""
        return self.W(torch.cat([context, state.to(context.dtype)], -1)).tanh()


@final
class MaxoutReadout(Readout):
    """The larger of each pair of sums over state, word and context."""

    def __init__(self, *, d_context: int, d_hidden: int, d_embedding: int) -> None:
        super().__init__(d_context=d_context, d_hidden=d_hidden, d_embedding=d_embedding)
        self.U = nn.Linear(d_hidden, d_hidden, bias=False)
        self.V = nn.Linear(d_embedding, d_hidden, bias=False)
        self.C = nn.Linear(d_context, d_hidden, bias=False) if d_context else None

    @staticmethod
    def width_of(d_hidden: int) -> int:
        """Half the state's width, as each pair gives one number."""
        if d_hidden % 2:
            raise SettingError(
                f"model.readout = 'maxout' takes the larger of each pair, and model.d_hidden = "
                f"{d_hidden} is odd. Take {d_hidden + 1}, or readout = 'attentional'."
            )
        return d_hidden // 2

    def forward(self, context: Context, state: State, word: Word) -> Read:
        """The larger of each pair of U h + V E y + C c."""
        total = self.U(state) + self.V(word)
        total = total if self.C is None else total + self.C(context)
        return total.unflatten(-1, (self.width, 2)).amax(-1)


@final
class StateReadout(Readout):
    """The state itself."""

    def forward(self, context: Context, state: State, word: Word) -> Read:
        """The state."""
        return state


READOUTS: Mapping[str, type[Readout]] = {
    "attentional": AttentionalReadout,
    "maxout": MaxoutReadout,
    "state": StateReadout,
}
"""The names that `model.readout` may have."""
