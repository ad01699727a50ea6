"""Cells: LSTM and GRU, whose state reads one vector after another through gates.

    lstm   i, f, o = σ(W x + U h + b),  g = tanh(W x + U h + b),  c' = f ⊙ c + i ⊙ g,
           h' = o ⊙ tanh(c')
    gru    r, z = σ(W x + U h + b),  n = tanh(W x + b + r ⊙ U h),  h' = (1 - z) ⊙ n + z ⊙ h

On a GPU all steps at once run in torch's fused kernels. Single steps use the same weights, on a CPU
and for a decoder whose input needs its last output. A bias is the weight of one more input that is
always 1. If that input is 0 and all others are too, a state of zeros stays a state of zeros: so
padding before a sentence changes nothing, and the CPU needs no lengths of sentences.

Paper: Hochreiter & Schmidhuber 1997; Cho et al. 2014, with the reset gate after the product, as the
fused kernels have it. Dropout on what goes into a layer, never on the state: Zaremba et al. 2014.
Cost: time O(n · d²), n steps one after another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.dropout import Dropout
from regard.attention.links import wide
from regard.layers.recurrent.shared_weight import SharedWeight, add_product

LayerState = tuple[Tensor, ...]
"""The state of one layer, each `b d`: the hidden state, and for an LSTM its cell."""

Cells = tuple[LayerState, ...]
"""The states of all layers, the lowest first."""

Gates = Float[Tensor, "b g"]


@final
@dataclass(frozen=True)
class Recurrence:
    """A kind of cell: its kernel, its sizes and its step."""

    kernel: type[nn.LSTM] | type[nn.GRU]
    """torch's fused kernel, which holds the weights."""
    n_states: int
    """Vectors in the state of one layer."""
    n_gates: int
    """Vectors that are computed from each input, one for each gate."""
    one: Callable[[Gates, Gates, LayerState], LayerState]
    """One step, from the input's part of the gates, W x, and the state's, U h."""

    def bias(self, d_hidden: int) -> Float[Tensor, " g"]:
        """1 for the gate that keeps the state, the second one (Jozefowicz et al. 2015)."""
        return torch.eye(self.n_gates)[1].repeat_interleave(d_hidden)


def _lstm(gates: Gates, own: Gates, state: LayerState) -> LayerState:
    """Hidden state and cell; the cell is summed in single precision at least."""
    i, f, g, o = (gates + own).chunk(4, -1)
    c = f.sigmoid() * wide(state[1]) + i.sigmoid() * g.tanh()
    return (o.sigmoid() * c.tanh().to(o.dtype), c)


def _gru(gates: Gates, own: Gates, state: LayerState) -> LayerState:
    """The hidden state, which is also the memory."""
    (h,) = state
    (r, z, n), (r_h, z_h, n_h) = gates.chunk(3, -1), own.chunk(3, -1)
    z = (z + z_h).sigmoid()
    n = (n + (r + r_h).sigmoid() * n_h).tanh()
    return ((1 - z) * n + z * h.to(n.dtype),)


RECURRENCES: Mapping[str, Recurrence] = {
    "lstm": Recurrence(nn.LSTM, n_states=2, n_gates=4, one=_lstm),
    "gru": Recurrence(nn.GRU, n_states=1, n_gates=3, one=_gru),
}
"""The names that `model.cell` may have."""


@final
class RecurrentLayer(nn.Module):
    """One layer that reads in one direction."""

    def __init__(self, recurrence: Recurrence, *, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.recurrence, self.d_input = recurrence, d_input
        self.kernel = recurrence.kernel(d_input + 1, d_hidden, bias=False, batch_first=True)

    @property
    def of_input(self) -> Float[Tensor, "g d"]:
        """The weights of the input; the last column is the bias."""
        return cast(Tensor, self.kernel.weight_ih_l0)

    @property
    def of_state(self) -> Float[Tensor, "g h"]:
        """The weights of the hidden state."""
        return cast(Tensor, self.kernel.weight_hh_l0)

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: LayerState | None = None,
        there: Float[Tensor, "b n 1"] | None = None,
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Every step, from a state of zeros unless one is given.

        `there` is 1 for words and 0 for padding, which must come first and have an x of 0.
        """
        one = x.new_ones(*x.shape[:2], 1) if there is None else there.to(x.dtype)
        x = torch.cat([x, one], -1)
        return self._in_turn(x, state) if x.device.type == "cpu" else self._fused(x, state)

    def _fused(
        self, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Run the fused kernel in single precision: autocast's float16 overflows in it."""
        kind, is_lone = x.device.type, self.recurrence.n_states == 1
        wanted = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        x = wide(x)
        start = None if state is None else tuple(each[None].to(x.dtype) for each in state)
        with torch.autocast(kind, enabled=False):
            # torch takes and gives a lone state without a tuple around it
            y, after = self.kernel(x, start[0] if start and is_lone else start)
        return y.to(wanted), tuple(each[0] for each in ((after,) if is_lone else after))

    def _in_turn(
        self, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Run the steps one by one: a CPU's fused kernel is no faster, and slow on busy cores."""
        gates = linear(x.transpose(0, 1), self.of_input)
        zeros = x.new_zeros(len(x), self.kernel.hidden_size)
        state = (zeros,) * self.recurrence.n_states if state is None else state
        shared, states = SharedWeight(self.of_state, torch.zeros_like(gates)), []
        for each, base in zip(gates.unbind(0), shared.bases, strict=True):
            shared.saw(state[0])
            own = add_product(base, state[0], shared.weight)
            state = self.recurrence.one(each, own, state)
            states.append(state[0])
        return torch.stack(states, 1), state


class LayerStep(NamedTuple):
    """The inputs of one layer for one step, as tensors only, so that it can be compiled."""

    base: Float[Tensor, "b g"]
    """The part of the gates that is known beforehand."""
    of_input: Float[Tensor, "g d"]
    own_base: Float[Tensor, "b g"]
    of_state: Float[Tensor, "g h"]


class Steps:
    """All steps of a stack: the inputs of each layer for each step, and what it has read."""

    def __init__(self, layers: Sequence[tuple[SharedWeight, SharedWeight]]) -> None:
        self.layers = layers

    def __iter__(self) -> Iterator[tuple[LayerStep, ...]]:
        bases = zip(*(shared.bases for pair in self.layers for shared in pair), strict=True)
        for now in bases:
            pairs = zip(self.layers, now[::2], now[1::2], strict=True)
            yield tuple(LayerStep(x, of.weight, y, own.weight) for (of, own), x, y in pairs)

    def saw(self, read: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Record the input and the state that each layer read in the next step."""
        for pair, inputs in zip(self.layers, read, strict=True):
            for shared, x in zip(pair, inputs, strict=True):
                shared.saw(x)


@final
class RecurrentCells(nn.Module):
    """A stack of layers that continues from any state, for a decoder.

    The lowest layer's input has two parts: `d_known` numbers that are known for all steps
    beforehand, and `d_more` that each step makes for the next. All but the first has dropout.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        *,
        d_known: int,
        d_more: int = 0,
        d_hidden: int,
        n_layers: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.recurrence, self.d_more = recurrence, d_more
        widths = [d_known + d_more, *[d_hidden] * (n_layers - 1)]
        self.layers = nn.ModuleList(
            RecurrentLayer(recurrence, d_input=width, d_hidden=d_hidden) for width in widths
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], cells: Cells
    ) -> tuple[Float[Tensor, "b n h"], Cells]:
        """Every step at once; the highest layer's hidden states."""
        after = []
        for i, (layer, state) in enumerate(zip(self.layers, cells, strict=True)):
            x, state = layer(self.dropout(x) if i else x, state)
            after.append(state)
        return x, tuple(after)

    def steps(self, x: Float[Tensor, "b n d"]) -> Steps:
        """Compute all parts of the steps that depend on x alone."""
        pairs = []
        for i, layer in enumerate(cast(Sequence[RecurrentLayer], self.layers)):
            d_waits = layer.d_input if i else self.d_more
            known, waits, bias = layer.of_input.split([layer.d_input - d_waits, d_waits, 1], 1)
            x = x if i == 0 else x[..., :0]
            base = linear(x.transpose(0, 1), known, bias[:, 0])
            own = SharedWeight(layer.of_state, torch.zeros_like(base))
            pairs.append((SharedWeight(waits, base), own))
        return Steps(pairs)

    def step(
        self, more: Float[Tensor, "b d"], cells: Cells, now: tuple[LayerStep, ...]
    ) -> tuple[Cells, tuple[tuple[Tensor, Tensor], ...]]:
        """One step that reads `more`; gives the new state, and what each layer read."""
        after, read = [], []
        for (base, of_input, own_base, of_state), state in zip(now, cells, strict=True):
            x, h = self.dropout(more), state[0]
            gates, own = add_product(base, x, of_input), add_product(own_base, h, of_state)
            after.append(self.recurrence.one(gates, own, state))
            read.append((x, h))
            more = after[-1][0]
        return tuple(after), tuple(read)
