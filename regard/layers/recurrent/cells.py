"""Recurrence: a state reads one vector after another, by gates that say what to keep.

    lstm   i, f, o = σ(W x + U h + b),  g = tanh(W x + U h + b),  c' = f ⊙ c + i ⊙ g,
           h' = o ⊙ tanh(c')
    gru    r, z = σ(W x + U h + b),  n = tanh(W x + b + r ⊙ U h),  h' = (1 - z) ⊙ n + z ⊙ h

On a GPU all steps at once run in torch's fused kernels. One step at a time uses the same weights,
on a CPU and for a decoder whose next input is made of its last output. A bias is the weight of one
more input that is always 1. Where it is 0 and all other inputs are too, a state of zeros stays a
state of zeros: so padding before a sentence changes nothing, and no lengths have to be known
outside the GPU.

Paper: Hochreiter & Schmidhuber 1997; Cho et al. 2014, with the reset gate after the product, as the
fused kernels have it. Dropout on what goes into a layer, never on the state: Zaremba et al. 2014.
Cost: time O(n · d²), n steps one after another.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.dropout import Dropout
from regard.attention.links import wide
from regard.layers.recurrent.sharing import SharedWeight, add_product

LayerState = tuple[Tensor, ...]
"""What one layer remembers, each `b d`: the hidden state, and with an LSTM its cell."""

Cells = tuple[LayerState, ...]
"""What all layers remember, the lowest first."""


@runtime_checkable
class Recurrence(Protocol):
    """A kind of state, and how it takes in what comes."""

    n_states: int
    """Vectors that one layer remembers."""
    n_gates: int
    """Vectors that are made of each input."""

    def kernel(self, d_input: int, d_hidden: int) -> nn.RNNBase:
        """The fused kernel, which holds the weights."""

    def bias(self, d_hidden: int) -> Float[Tensor, " g"]:
        """A bias for the gates with which a state remembers from the start."""

    def all(
        self, kernel: nn.RNNBase, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Every step, by the kernel; the hidden states, and what is remembered at the end."""

    def one(
        self, gates: Float[Tensor, "b g"], own: Float[Tensor, "b g"], state: LayerState
    ) -> LayerState:
        """One step, from the input's share of the gates, W x, and the state's own, U h."""


@final
class LongShortTermMemory:
    """Hidden state and cell; the cell is summed in single precision at least."""

    n_states, n_gates = 2, 4

    def kernel(self, d_input: int, d_hidden: int) -> nn.RNNBase:
        """The LSTM of torch."""
        return nn.LSTM(d_input, d_hidden, bias=False, batch_first=True)

    def bias(self, d_hidden: int) -> Float[Tensor, " g"]:
        """1 for the forget gate (Jozefowicz et al. 2015)."""
        return torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(d_hidden)

    def all(
        self, kernel: nn.RNNBase, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Every step."""
        start = None if state is None else tuple(each[None].to(x.dtype) for each in state)
        y, (h, c) = kernel(x, start)
        return y, (h[0], c[0])

    def one(
        self, gates: Float[Tensor, "b g"], own: Float[Tensor, "b g"], state: LayerState
    ) -> LayerState:
        """One step."""
        i, f, g, o = (gates + own).chunk(4, -1)
        c = f.sigmoid() * wide(state[1]) + i.sigmoid() * g.tanh()
        return (o.sigmoid() * c.tanh().to(o.dtype), c)


@final
class GatedRecurrence:
    """One hidden state that is also the memory."""

    n_states, n_gates = 1, 3

    def kernel(self, d_input: int, d_hidden: int) -> nn.RNNBase:
        """The GRU of torch."""
        return nn.GRU(d_input, d_hidden, bias=False, batch_first=True)

    def bias(self, d_hidden: int) -> Float[Tensor, " g"]:
        """1 for the gate that keeps the state."""
        return torch.tensor([0.0, 1.0, 0.0]).repeat_interleave(d_hidden)

    def all(
        self, kernel: nn.RNNBase, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Every step."""
        y, h = kernel(x, None if state is None else state[0][None].to(x.dtype))
        return y, (h[0],)

    def one(
        self, gates: Float[Tensor, "b g"], own: Float[Tensor, "b g"], state: LayerState
    ) -> LayerState:
        """One step."""
        (h,) = state
        (r, z, n), (r_h, z_h, n_h) = gates.chunk(3, -1), own.chunk(3, -1)
        z = (z + z_h).sigmoid()
        n = (n + (r + r_h).sigmoid() * n_h).tanh()
        return ((1 - z) * n + z * h.to(n.dtype),)


RECURRENCES: Mapping[str, Recurrence] = {"lstm": LongShortTermMemory(), "gru": GatedRecurrence()}
"""What `model.cell` may name."""


@final
class RecurrentLayer(nn.Module):
    """One layer that reads in one direction.

    Args:
        recurrence: the kind of state.
        d_input: width of what is read.
        d_hidden: width of the state.
    """

    def __init__(self, recurrence: Recurrence, *, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.recurrence, self.d_input = recurrence, d_input
        self.kernel = recurrence.kernel(d_input + 1, d_hidden)

    @property
    def of_input(self) -> Float[Tensor, "g d"]:
        """The weights of what is read; the last column is the bias."""
        return cast(Tensor, self.kernel.weight_ih_l0)

    @property
    def of_state(self) -> Float[Tensor, "g h"]:
        """The weights of the state."""
        return cast(Tensor, self.kernel.weight_hh_l0)

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: LayerState | None = None,
        there: Float[Tensor, "b n 1"] | None = None,
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """Every step, from a state of zeros unless one is given.

        Args:
            x: what is read; zeros where there is nothing.
            state: what is remembered.
            there: 1 for what is there, 0 for padding, which must stand in front.
        """
        one = x.new_ones(*x.shape[:2], 1) if there is None else there.to(x.dtype)
        x = torch.cat([x, one], -1)
        return self._in_turn(x, state) if x.device.type == "cpu" else self._fused(x, state)

    def _fused(
        self, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """In single precision: under autocast the kernel takes float16, in which it overflows."""
        kind = x.device.type
        said = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with torch.autocast(kind, enabled=False):
            y, after = self.recurrence.all(self.kernel, wide(x), state)
        return y.to(said), after

    def _in_turn(
        self, x: Float[Tensor, "b n d"], state: LayerState | None
    ) -> tuple[Float[Tensor, "b n h"], LayerState]:
        """One after another: a CPU's fused kernel is no faster, and slow on busy cores."""
        gates = linear(x.transpose(0, 1), self.of_input)
        nothing = x.new_zeros(len(x), self.kernel.hidden_size)
        state = (nothing,) * self.recurrence.n_states if state is None else state
        shared, said = SharedWeight(self.of_state, torch.zeros_like(gates)), []
        for each, base in zip(gates.unbind(0), shared.bases, strict=True):
            shared.saw(state[0])
            own = add_product(base, state[0], shared.weight)
            state = self.recurrence.one(each, own, state)
            said.append(state[0])
        return torch.stack(said, 1), state


class LayerStep(NamedTuple):
    """What one layer needs for one step; tensors and nothing else, for a compiler."""

    base: Float[Tensor, "b g"]
    """The share of the gates that is known beforehand."""
    of_input: Float[Tensor, "g d"]
    own_base: Float[Tensor, "b g"]
    of_state: Float[Tensor, "g h"]


class Steps:
    """All steps of a stack that waits: what each layer needs for each, and what it has read."""

    def __init__(self, layers: Sequence[tuple[SharedWeight, SharedWeight]]) -> None:
        self.layers = layers

    def __iter__(self) -> Iterator[tuple[LayerStep, ...]]:
        """One step after another."""
        bases = zip(*(shared.bases for pair in self.layers for shared in pair), strict=True)
        for now in bases:
            pairs = zip(self.layers, now[::2], now[1::2], strict=True)
            yield tuple(LayerStep(x, of.weight, y, own.weight) for (of, own), x, y in pairs)

    def saw(self, read: Sequence[tuple[Tensor, Tensor]]) -> None:
        """What each layer read in the next step: its input and its state."""
        for pair, inputs in zip(self.layers, read, strict=True):
            for shared, x in zip(pair, inputs, strict=True):
                shared.saw(x)


@final
class RecurrentCells(nn.Module):
    """A stack of layers that goes on from any state, for a decoder.

    What the lowest layer reads is in two parts: one that is known for all steps beforehand, and
    one that each step makes for the next.

    Args:
        recurrence: the kind of state.
        d_known: width of the first part.
        d_more: width of the second.
        d_hidden: width of every layer.
        n_layers: how many there are.
        dropout: on what goes into a layer, but for what is known beforehand.
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
        """Everything about the steps that read these that is known beforehand."""
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
        """One step, from what has come since; and what each layer read for it."""
        after, read = [], []
        for (base, of_input, own_base, of_state), state in zip(now, cells, strict=True):
            x, h = self.dropout(more), state[0]
            gates, own = add_product(base, x, of_input), add_product(own_base, h, of_state)
            after.append(self.recurrence.one(gates, own, state))
            read.append((x, h))
            more = after[-1][0]
        return tuple(after), tuple(read)
