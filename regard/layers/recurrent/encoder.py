"""Recurrent encoder: layers that read a sentence forwards, backwards, or both ways.

    h[j] = [fwd[j]; bwd[j]],   fwd[j] = f(x[j], fwd[j - 1]),   bwd[j] = f(x[j], bwd[j + 1])

States are in the order of the sentence for every direction. Each direction gets its rows with the
padding first, where it changes nothing, so that the kernel's last state is the last word's forwards
and the first word's backwards.

Paper: Schuster & Paliwal 1997; Sutskever, Vinyals & Le 2014, section 3.3 (reading backwards).
Cost: time O(n · d²) for each layer and direction, n steps one after another.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.layers.recurrent.cells import LayerState, Recurrence, RecurrentLayer


class Encoded(NamedTuple):
    """The result of an encoder."""

    states: Float[Tensor, "b n m"]
    """The highest layer's states, directions joined; zeros for padding."""
    last: tuple[Mapping[str, LayerState], ...]
    """The last state of each layer, for each direction."""


@final
class RecurrentEncoder(nn.Module):
    """Stacked layers, each of which reads the states of the layer below in all directions.

    `reads` names the directions, "forwards" and "backwards"; dropout is on the input of every
    layer but the lowest.
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
        self.reads = tuple(reads)
        widths = [d_input, *[len(reads) * d_hidden] * (n_layers - 1)]
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
        """Read rows whose padding, where `valid` is False, comes last."""
        there, n = valid.unsqueeze(-1).to(x.dtype), valid.shape[1]
        at, length = torch.arange(n, device=valid.device), valid.sum(1, keepdim=True)
        to_front, back = (at + length) % n, (at - length) % n
        marks = {name: _turned(there, name, to_front) for name in self.reads}
        last: list[Mapping[str, LayerState]] = []
        # states of padding are zeros, so that only x needs the mask
        x = x * there
        for i, layer in enumerate(cast(Sequence[nn.ModuleDict], self.layers)):
            x = self.dropout(x) if i else x
            read, ends = [], {}
            for name in self.reads:
                states, ends[name] = layer[name](_turned(x, name, to_front), None, marks[name])
                read.append(_turned(states, name, back))
            x = read[0] if len(read) == 1 else torch.cat(read, -1)
            last.append(ends)
        return Encoded(x, tuple(last))


def _turned(
    x: Float[Tensor, "b n d"], direction: str, places: Int[Tensor, "b n"]
) -> Float[Tensor, "b n d"]:
    """The rows with their padding moved, to the front or back; a flip does both for backwards."""
    if direction == "backwards":
        return x.flip(1)
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))
