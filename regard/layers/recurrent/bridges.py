"""Bridges: a decoder's first state, made of an encoder's last one.

    copy        s[l] = e[l]                            the same layers and widths
    projected   s[l] = W[l] [e_fwd[l]; e_bwd[l]]       all directions together
    backward    s[l] = tanh(W[l] e_bwd[l])             the direction that ends at the first word

Each vector of a layer, hidden state and cell, has a W of its own.

Paper: Luong, Pham & Manning 2015 (copy); the CS224N sequence-to-sequence assignment (projected);
Bahdanau, Cho & Bengio 2015, appendix A.2.2 (backward).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import final

import torch
from torch import nn

from regard.layers.recurrent.cells import Cells, LayerState, Recurrence

Last = Sequence[Mapping[str, LayerState]]
"""The last state of each layer of an encoder, for each direction."""


@final
class CopyBridge(nn.Module):
    """The decoder begins with the last state of an encoder of one direction."""

    def __init__(
        self, recurrence: Recurrence, *, reads: Sequence[str], d_hidden: int, n_layers: int
    ) -> None:
        super().__init__()
        (self.direction,) = reads

    def forward(self, last: Last) -> Cells:
        """The encoder's last states, unchanged."""
        return tuple(layer[self.direction] for layer in last)


@final
class LearnedBridge(nn.Module):
    """One matrix for each vector of each layer, which reads the joined directions."""

    def __init__(
        self,
        recurrence: Recurrence,
        *,
        reads: Sequence[str],
        d_hidden: int,
        n_layers: int,
        is_backward: bool = False,
    ) -> None:
        super().__init__()
        self.reads, self.is_backward = ("backwards",) if is_backward else tuple(reads), is_backward
        d_in, n_vectors = len(self.reads) * d_hidden, recurrence.n_states * n_layers
        self.W = nn.ModuleList(nn.Linear(d_in, d_hidden, bias=False) for _ in range(n_vectors))

    def forward(self, last: Last) -> Cells:
        """Every vector through its own matrix."""
        matrices, cells = iter(self.W), []
        for layer in last:
            vectors = zip(*(layer[name] for name in self.reads), strict=True)
            made = [next(matrices)(torch.cat(vector, -1)) for vector in vectors]
            cells.append(tuple(x.tanh() if self.is_backward else x for x in made))
        return tuple(cells)


BRIDGES: Mapping[str, Callable[..., nn.Module]] = {
    "copy": CopyBridge,
    "projected": LearnedBridge,
    "backward": partial(LearnedBridge, is_backward=True),
}
"""The names that `model.bridge` may have."""
