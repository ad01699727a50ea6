"""A Transformer's decoder over the same grid of annotations, for comparison.

    x[i] = LN(W a[i]) + PE[i],   logits[t] = decoder(embed(y[:t]), x) Eᵀ

A cell is known by its number, counted row by row, as a word is by its place.

Paper: Vaswani et al. 2017, section 3 (the decoder); Xu et al. 2015 (the grid).
"""

from collections.abc import Iterator, Sequence
from typing import cast, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import FULL, AttentionMap, padding
from regard.attention.capture import captured
from regard.attention.dropout import Dropout
from regard.dims import Dims
from regard.layers import Norm
from regard.layers.decoder_layer import reordered
from regard.models.embedding import Embedding
from regard.models.learner import Lesson, shifted
from regard.models.stepper import PAD, rows_of
from regard.models.transformer import TransformerState, WritingLayer
from regard.positions import SinusoidalPositions


@final
class TransformerDecoder(nn.Module):
    """Decoder layers over a picture's cells.

    Args:
        dims: width and heads.
        embedding: embeds the words.
        layers: decoder layers.
        norm: the last norm.
        d_annotation: width of an annotation.
        dropout: on the cells.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        embedding: Embedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        d_annotation: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.W, self.cell_norm = nn.Linear(d_annotation, dims.d_model), Norm(dims)
        self.positions, self.dropout = SinusoidalPositions(dims), Dropout(dropout)

    def hidden(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        cells, x, sees_target = self._cells(annotations), self.embedding(target), target != PAD
        for layer in self.layers:
            x = layer(x, cells, padding(sees_target), FULL)
        return self.norm(x)

    def lesson(self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for, with those before it at hand."""
        return Lesson(self.hidden(annotations, shifted(target)), target)

    def maps(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row looks: "decoder" and "cross", a map for each layer."""
        with captured(self) as maps:
            self.hidden(annotations, target)
        # the last chain of a decoder layer is the one that looks at the picture
        layers = [
            [found for name, found in maps.items() if name.startswith(f"layers.{i}.")]
            for i in range(len(self.layers))
        ]
        return {
            "decoder": tuple(layer[0] for layer in layers),
            "cross": tuple(layer[-1] for layer in layers),
        }

    def gates(self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]) -> None:
        """It has none."""

    def start(self, annotations: Float[Tensor, "b l d"]) -> TransformerState:
        """Project the cells once for every layer."""
        cells = self._cells(annotations)
        return TransformerState(None, tuple(layer.start(cells) for layer in self._layers()), 0)

    def step(
        self, state: TransformerState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t m"], TransformerState]:
        """What the output layer reads after each new token; earlier ones are in the state."""
        x, caches = self.embedding(tokens, past=state.length), []
        for layer, cache in zip(self._layers(), state.caches, strict=True):
            x, longer = layer.step(x, cache, source_mask=FULL)
            caches.append(longer)
        after = TransformerState(None, tuple(caches), state.length + tokens.shape[1])
        return self.norm(x), after

    def select(self, state: TransformerState, rows: Int[Tensor, " r"]) -> TransformerState:
        """The state of some rows, all or none of a picture's, each with its picture."""
        width = state.caches[0].width
        pictures = rows[::width] // width
        caches = tuple(cache.keep(rows, pictures) for cache in state.caches)
        return TransformerState(None, caches, state.length)

    def branch(self, state: TransformerState, parents: Int[Tensor, "b w"]) -> TransformerState:
        """Go on in w rows a picture; the picture stays where it is."""
        rows = rows_of(parents, len(parents) * state.caches[0].width)
        return TransformerState(None, reordered(state.caches, rows), state.length)

    def repeated(self) -> Iterator[nn.Module]:
        """The layers."""
        yield from self.layers

    def _cells(self, annotations: Float[Tensor, "b l d"]) -> Float[Tensor, "b l m"]:
        at = torch.arange(annotations.shape[1], device=annotations.device)[None]
        cells = self.cell_norm(self.W(annotations))
        return self.dropout(cells + self.positions(at).to(cells.dtype))

    def _layers(self) -> list[WritingLayer]:
        return cast(list[WritingLayer], list(self.layers))
