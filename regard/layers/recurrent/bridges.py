"""Bridges: what a decoder remembers before its first word, from what an encoder remembers at last.

    copy        s[l] = e[l]                            the same layers and widths
    projected   s[l] = W[l] [e_fwd[l]; e_bwd[l]]       of every layer, all directions together
    backward    s[l] = tanh(W[l] e_bwd[l])             what the first word's state holds

Each vector of a layer, hidden state and cell, has a W of its own.

Paper: Luong, Pham & Manning 2015 (copy); the CS224N sequence-to-sequence assignment (projected);
Bahdanau, Cho & Bengio 2015, appendix A.2.2 (backward).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.layers.recurrent.cells import Cells, LayerState, Recurrence

Last = Sequence[Mapping[str, LayerState]]
"""What each layer of an encoder remembers at the end, for each direction."""


@final
class CopyBridge(nn.Module):
    """The decoder goes on from where the encoder, of one direction, ended."""

    def __init__(
        self, recurrence: Recurrence, *, reads: Sequence[str], d_hidden: int, n_layers: int
    ) -> None:
        super().__init__()
        (self.direction,) = reads

    def forward(self, last: Last) -> Cells:
        """The same numbers."""
        return tuple(layer[self.direction] for layer in last)


@final
class ProjectedBridge(nn.Module):
    """All directions together, without a non-linearity."""

    def __init__(
        self, recurrence: Recurrence, *, reads: Sequence[str], d_hidden: int, n_layers: int
    ) -> None:
        super().__init__()
        self.reads = tuple(reads)
        self.W = _matrices(recurrence.n_states * n_layers, len(reads) * d_hidden, d_hidden)

    def forward(self, last: Last) -> Cells:
        """One product for each vector of each layer."""
        joined = [[torch.cat(parts, -1) for parts in self._together(layer)] for layer in last]
        return _through(self.W, joined, lambda x: x)

    def _together(self, layer: Mapping[str, LayerState]) -> list[tuple[Tensor, ...]]:
        return list(zip(*(layer[name] for name in self.reads), strict=True))


@final
class BackwardBridge(nn.Module):
    """What the direction that ends at the first word remembers, squashed."""

    def __init__(
        self, recurrence: Recurrence, *, reads: Sequence[str], d_hidden: int, n_layers: int
    ) -> None:
        super().__init__()
        self.W = _matrices(recurrence.n_states * n_layers, d_hidden, d_hidden)

    def forward(self, last: Last) -> Cells:
        """One product and a tanh for each vector of each layer."""
        return _through(self.W, [layer["backwards"] for layer in last], torch.tanh)


BRIDGES: Mapping[str, Callable[..., nn.Module]] = {
    "copy": CopyBridge,
    "projected": ProjectedBridge,
    "backward": BackwardBridge,
}
"""What `model.bridge` may name."""


def _matrices(count: int, d_in: int, d_out: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(d_in, d_out, bias=False) for _ in range(count))


def _through(
    matrices: nn.ModuleList, layers: Sequence[Sequence[Tensor]], then: Callable[[Tensor], Any]
) -> Cells:
    """Every vector through its own matrix."""
    each = iter(matrices)
    return tuple(tuple(then(next(each)(vector)) for vector in layer) for layer in layers)
