"""A caption's record: the original picture, the words, and the weights of each over the picture.

    words     b[t,i] = mean over the pieces of word t of a[piece,i], for cell i of the grid
    β[t]      mean over the pieces of word t of their gates
    entropy   −Σᵢ b[t,i] ln b[t,i], in nats

Cells lie over the original picture; a framing holds the part of it that the model saw. Special
tokens, such as the end, are not words of the caption: they are left out, and `hidden` gives the
share of all the weight that is left out with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shortened
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.boxes import Box
from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.data.subword_kinds import BOS, EOS
from regard.data.subwords import Subwords
from regard.errors import LengthError, ShapeError
from regard.inspecting.capture import evaluating, recorded, versions
from regard.inspecting.dead_maps import dead_maps, entropies
from regard.inspecting.panels import Hidden, View
from regard.inspecting.record import (
    DIGITS,
    MAX_JSON_WEIGHTS,
    Attention,
    Forms,
    Record,
    ShownInNotebooks,
)
from regard.inspecting.token_labels import Tokens, read_ids
from regard.layers.vision.image_encoder import GridSize
from regard.models.captioner.network import Captioner

KIND = "cross"
"""The kind of attention of a caption: words look at cells of the picture."""


@final
@dataclass(frozen=True)
class CaptionRecord(ShownInNotebooks):
    """One caption: its picture, its words, and their weights over the grid by layer and head."""

    forms: ClassVar[Forms] = {}

    picture: Picture
    """The original."""
    framing: Framing
    """The part of it that the model saw."""
    grid: GridSize
    covered: Box
    """The part of the picture that all cells together cover; they may reach beyond the part that
    the model saw, see regard/layers/vision."""
    read: Record
    """The weights of pieces and words over the cells, special tokens included."""
    piece_gates: tuple[float, ...] | None = None
    """β of every piece, where the model has a gate."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        n_cells, n_pieces = len(self._cross.keys), len(self._cross.queries)
        n_gates = n_pieces if self.piece_gates is None else len(self.piece_gates)
        if self.grid.n_cells != n_cells or n_gates != n_pieces:
            raise ShapeError(
                f"caption record: expected a grid of {n_cells} cells and, if any, {n_pieces} "
                f"gates, got {self.grid.rows} by {self.grid.columns} cells and {n_gates} gates."
            )
        whole, framed = ((one.width, one.height) for one in (self.picture, self.framing))
        if whole != framed:
            raise ShapeError(
                f"caption record: the picture has {whole[0]} by {whole[1]} pixels, but the framing "
                f"is of one of {framed[0]} by {framed[1]}. Make the framing from this picture."
            )

    def __repr__(self) -> str:
        cells = f"{self.grid.rows} × {self.grid.columns} cells"
        return f"CaptionRecord({self.picture.name} → {shortened(self.caption)}, {cells})"

    @property
    def caption(self) -> str:
        """The text."""
        return self.read.target

    @property
    def words(self) -> tuple[str, ...]:
        """The caption's words, special tokens left out."""
        return tuple(self._cross.queries.names[place] for place in self._places)

    @property
    def n_layers(self) -> int:
        """Layers that look at the picture."""
        return len(self._cross.layers)

    @property
    def n_heads(self) -> int:
        """Heads of each."""
        return self._cross.n_heads

    @property
    def mechanism(self) -> str:
        """The links of the attention by name."""
        return self._cross.mechanism

    @property
    def gates(self) -> tuple[float, ...] | None:
        """β of each word; None where the model has no gate."""
        if self.piece_gates is None:
            return None
        by_word: dict[int, list[float]] = {}
        for word, gate in zip(self._cross.queries.words, self.piece_gates, strict=True):
            by_word.setdefault(word, []).append(gate)
        return tuple(sum(by_word[place]) / len(by_word[place]) for place in self._places)

    @property
    def hidden(self) -> Hidden:
        """The special tokens that are left out, and their share of all the weight."""
        weights, places = self.read.words(KIND), sorted(self._cross.queries.specials)
        share = float(weights[places].sum() / weights.sum().clamp(min=1e-30))
        return Hidden(tuple(self._cross.queries.names[place] for place in places), share)

    @property
    def warning(self) -> str:
        """What is wrong with the maps, as a sentence; empty if `dead_maps` finds no fault."""
        return dead_maps(self.maps().flatten(1))

    def maps(
        self, layer: int | None = None, head: int | None = None
    ) -> Float[Tensor, "t rows columns"]:
        """The weights of every word over the grid; where layer or head is None, the mean of all."""
        return self.read.words(KIND, layer, head)[list(self._places)].unflatten(1, self.grid)

    def entropies(self, layer: int | None = None, head: int | None = None) -> Float[Tensor, " t"]:
        """How spread the map of every word is, in nats."""
        return entropies(self.maps(layer, head).flatten(1))

    def title(self, layer: int | None = None, head: int | None = None) -> str:
        """Which layers and heads are shown, in words."""
        return self.read.title(View(KIND, layer, head))

    @property
    def n_numbers(self) -> int:
        """How many weights `as_json` writes."""
        return (1 + self.n_layers * self.n_heads) * len(self._places) * self.grid.n_cells

    def as_json(self) -> dict[str, object]:
        """Plain data without the pixels, `weights[layer][head][word][row][column]`."""
        check_numbers([self])
        gates = self.gates
        return {
            "picture": picture_facts(self.picture),
            "shown": self.framing.box._asdict(),
            "grid": {**self.grid._asdict(), "covered": self.covered._asdict()},
            "caption": self.caption,
            "words": list(self.words),
            "gates": None if gates is None else [round(gate, DIGITS) for gate in gates],
            "entropies": _plain(self.entropies()),
            "hidden": self.hidden._asdict(),
            "warning": self.warning,
            "mechanism": self.mechanism,
            "versions": dict(self.versions),
            "mean": _plain(self.maps()),
            "weights": [
                [_plain(self.maps(layer, head)) for head in range(self.n_heads)]
                for layer in range(self.n_layers)
            ],
        }

    @property
    def _cross(self) -> Attention:
        return self.read.attention[KIND]

    @property
    def _places(self) -> tuple[int, ...]:
        """The places of the names that are words, not special tokens."""
        queries = self._cross.queries
        return tuple(i for i in range(len(queries.names)) if i not in queries.specials)


@torch.inference_mode()
def caption_record(
    model: Captioner,
    square: UInt8[np.ndarray, "3 y x"],
    framing: Framing,
    original: Picture,
    subwords: Subwords,
    tokens: Sequence[int],
) -> CaptionRecord:
    """Record where a captioner looks as it writes these tokens, in one teacher-forced pass.

    The square holds the pixels that it reads, as `framing.square(original)` gives them; the tokens
    are the caption without begin and end.
    """
    size = framing.size
    if square.shape != (3, size, size):
        raise ShapeError(
            f"caption record: expected the square that the framing makes, (3, {size}, {size}), got "
            f"{square.shape}. Give framing.square(original)."
        )
    device = model.output.weight.device
    given = torch.tensor([[BOS, *tokens]], device=device)
    with evaluating(model):
        seen = model.annotations(torch.tensor(square, device=device)[None])
        maps, gates = model.maps(seen, given)[KIND], model.gates(seen, given)
    grid, side = model.encoder.grid_of(size), model.encoder.pixels_per_cell
    reach = np.array([grid.columns, grid.rows]) * float(side)
    corners = framing.to_original(np.stack([np.zeros(2), reach]))
    words = read_ids(subwords, tokens, after=[EOS])
    cross = recorded(maps, words, cell_names(grid), ("word", "cell"))
    return CaptionRecord(
        original,
        framing,
        grid,
        Box(*corners.flatten().tolist()),
        Record(original.name, subwords.decode(tokens), {KIND: cross}),
        None if gates is None else tuple(gates[0].tolist()),
        versions(),
    )


def picture_facts(picture: Picture) -> dict[str, object]:
    """A picture without its pixels, as plain data."""
    return {
        "name": picture.name,
        "width": picture.width,
        "height": picture.height,
        "notes": list(picture.notes),
    }


def cell_names(grid: GridSize) -> Tokens:
    """The cells of a grid, row by row, as the keys of a record."""
    names = tuple(f"{row + 1}, {column + 1}" for row, column in np.ndindex(*grid))
    return Tokens(names, tuple(range(grid.n_cells)), names)


def check_numbers(records: Sequence[CaptionRecord]) -> None:
    """Refuse to write out more weights than a reader can open."""
    total = sum(record.n_numbers for record in records)
    if total > MAX_JSON_WEIGHTS:
        raise LengthError(
            f"caption record: {total:,} weights are too many to write out; at most "
            f"{MAX_JSON_WEIGHTS:,}. Take fewer pictures at a time, or look at one layer and head "
            "in Python: record.maps(layer, head)."
        )


def _plain(numbers: Float[Tensor, "..."]) -> object:
    """Nested lists with `DIGITS` decimal places."""
    return np.round(numbers.double().numpy(), DIGITS).tolist()
