"""A Transformer's decoder over the same grid of annotations, for comparison.

    x[i] = LN(W a[i]) + PE[i],   logits[t] = decoder(embed(y[:t]), x) Eᵀ

The position of a cell is its number, counted row by row.

Paper: Vaswani et al. 2017, section 3 (the decoder); Xu et al. 2015 (the grid).
"""

from collections.abc import Iterator
from typing import cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import FULL, padding
from regard.attention.capture import captured
from regard.attention.dropout import Dropout
from regard.layers.decoder_layer import WritingLayer
from regard.models.model import by_kind
from regard.models.parts import Parts
from regard.models.shapes import Annotations, Maps, NewStates, NewTokens, States, TargetTokens
from regard.models.stepper import PAD
from regard.models.trainable import LossInputs, shifted
from regard.models.transformer import TransformerState
from regard.positions import SinusoidalPositions


@final
class TransformerDecoder(nn.Module):
    """Decoder layers over a picture's cells, with dropout on the cells."""

    def __init__(self, parts: Parts, *, n_layers: int, n_tokens: int, d_annotation: int) -> None:
        super().__init__()
        self.embedding = parts.embedding(n_tokens)
        self.layers = nn.ModuleList(parts.decoder_layers(n_layers))
        self.norm = parts.last_norm()
        self.W, self.cell_norm = nn.Linear(d_annotation, parts.dims.d_model), parts.norm()
        self.positions = SinusoidalPositions(parts.dims)
        self.dropout = Dropout(parts.spec.dropout)

    def hidden(self, annotations: Annotations, target: TargetTokens) -> States:
        """The input of the output layer."""
        cells, x, sees_target = self._cells(annotations), self.embedding(target), target != PAD
        for layer in self.layers:
            x = layer(x, cells, padding(sees_target), FULL)
        return self.norm(x)

    def loss_inputs(self, annotations: Annotations, target: TargetTokens) -> LossInputs:
        """Every target token is predicted from those before it."""
        return LossInputs(self.hidden(annotations, shifted(target)), target)

    def maps(self, annotations: Annotations, target: TargetTokens) -> Maps:
        """Where each row looks: "decoder" and "cross", a map for each layer."""
        with captured(self) as maps:
            self.hidden(annotations, target)
        return by_kind(maps)

    def gates(self, annotations: Annotations, target: TargetTokens) -> None:
        """A Transformer has no gates."""

    def start(self, annotations: Annotations) -> TransformerState:
        """Project the cells once for every layer."""
        cells = self._cells(annotations)
        caches = tuple(cast(WritingLayer, layer).start(cells) for layer in self.layers)
        return TransformerState(None, caches, 0)

    def step(
        self, state: TransformerState, tokens: NewTokens
    ) -> tuple[NewStates, TransformerState]:
        """The output layer's input after each new token; earlier ones are in the state."""
        x, state = state.step(self.layers, self.embedding(tokens, past=state.length))
        return self.norm(x), state

    def repeated(self) -> Iterator[nn.Module]:
        """The layers."""
        yield from self.layers

    def _cells(self, annotations: Annotations) -> Float[Tensor, "b l m"]:
        at = torch.arange(annotations.shape[1], device=annotations.device)[None]
        cells = self.cell_norm(self.W(annotations))
        return self.dropout(cells + self.positions(at).to(cells.dtype))
