"""A caption's record: the picture as it was, the words, and where each of them looked.

    words     b[t,i] = mean over the pieces of word t of a[piece,i], for cell i of the grid
    β[t]      mean over the pieces of word t of their gates
    entropy   −Σᵢ b[t,i] ln b[t,i], in nats

Cells lie over the original picture: a framing says which part of it the model saw. Special tokens,
such as the end, are no words of the caption; they are left out, and how much of all the weight is
left out with them is said.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, cast, final

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.boxes import Box
from regard.data.framings import Framing
from regard.data.kinds import BOS, EOS
from regard.data.pictures import Picture
from regard.data.subwords import Subwords
from regard.errors import LengthError, ShapeError
from regard.inspecting.capture import frozen, with_values
from regard.inspecting.dead_maps import dead_maps, entropies
from regard.inspecting.panels import View
from regard.inspecting.record import DIGITS, MOST_NUMBERS, Attention, Record
from regard.inspecting.text_record import by_layer, mask_of, mechanism_of, versions
from regard.inspecting.token_labels import Tokens, read_ids
from regard.layers.vision.image_encoder import GridSize, ImageEncoder
from regard.models.captioner.network import Captioner

KIND = "cross"
"""Words look at cells."""


class Hidden(NamedTuple):
    """What is left out because it is no word."""

    names: tuple[str, ...]
    share: float
    """Of all the weight there is."""


SHOWN: dict[str, "Callable[[CaptionRecord], str | bytes]"] = {}
"""How a notebook shows a caption, by the form that it asks for; `regard.plots` puts these in."""


@final
@dataclass(frozen=True)
class CaptionRecord:
    """One caption: its picture, its words, and their weights over the grid by layer and head."""

    picture: Picture
    """As it was."""
    framing: Framing
    """What the model saw of it."""
    grid: GridSize
    covered: Box
    """What all cells together cover of the picture; they may reach over the edge of what the model
    saw, see regard/layers/vision."""
    read: Record
    """Pieces and words at cells, special tokens and all."""
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
        """The special tokens, and how much of all the weight is theirs."""
        weights, places = self.read.words(KIND), sorted(self._cross.queries.specials)
        share = float(weights[places].sum() / weights.sum().clamp(min=1e-30))
        return Hidden(tuple(self._cross.queries.names[place] for place in places), share)

    @property
    def warning(self) -> str:
        """What is wrong with the maps, as a sentence; nothing where they are alive."""
        return dead_maps(self.maps().flatten(1))

    def maps(
        self, layer: int | None = None, head: int | None = None
    ) -> Float[Tensor, "t rows columns"]:
        """The weights of every word over the grid.

        Args:
            layer: counted from 0; None for the mean of all.
            head: counted from 0; None for the mean of all.
        """
        return self.read.words(KIND, layer, head)[list(self._places)].unflatten(1, self.grid)

    def entropies(self, layer: int | None = None, head: int | None = None) -> Float[Tensor, " t"]:
        """How spread the map of every word is, in nats."""
        return entropies(self.maps(layer, head).flatten(1))

    def title(self, layer: int | None = None, head: int | None = None) -> str:
        """Which layers and heads are shown, in words."""
        return self.read.title(View(KIND, layer, head))

    def cell_box(self, row: int, column: int) -> Box:
        """What one cell shows of the original picture; nothing that the model did not see."""
        left, top, right, bottom = self.covered
        wide, high = (right - left) / self.grid.columns, (bottom - top) / self.grid.rows
        seen = self.framing.box
        return Box(
            min(left + column * wide, seen.right),
            min(top + row * high, seen.bottom),
            min(left + (column + 1) * wide, seen.right),
            min(top + (row + 1) * high, seen.bottom),
        )

    @property
    def n_numbers(self) -> int:
        """How many weights `as_json` writes."""
        return (1 + self.n_layers * self.n_heads) * len(self._places) * self.grid.n_cells

    def as_json(self) -> dict[str, object]:
        """All of it but the pixels as plain data, `weights[layer][head][word][row][column]`."""
        check_numbers([self])
        gates = self.gates
        return {
            "picture": {
                "name": self.picture.name,
                "width": self.picture.width,
                "height": self.picture.height,
                "notes": list(self.picture.notes),
            },
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

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str | bytes]:
        wanted = set(SHOWN if include is None else include) - set(exclude or ())
        shown = {form: show(self) for form, show in SHOWN.items() if form in wanted}
        return {form: content for form, content in shown.items() if content}

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_(include=["text/html"]).get("text/html", ""))

    @property
    def _cross(self) -> Attention:
        return self.read.attention[KIND]

    @property
    def _places(self) -> tuple[int, ...]:
        """Words among the names."""
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
    """Record where a captioner looked while it wrote these tokens.

    Args:
        model: what wrote them, or might have.
        square: the pixels that it reads, as `framing.square` gives them.
        framing: which part of the original they show.
        original: the picture as it was.
        subwords: the captions' vocabulary.
        tokens: the caption, without begin and end.
    """
    size = framing.size
    if square.shape != (3, size, size):
        raise ShapeError(
            f"caption record: expected the square that the framing makes, (3, {size}, {size}), got "
            f"{square.shape}. Give framing.square(original)."
        )
    device, was_training = model.output.weight.device, model.training
    model.eval()
    seen = model.annotations(torch.tensor(square, device=device)[None])
    given = torch.tensor([[BOS, *tokens]], device=device)
    maps = tuple(frozen(one) for one in with_values(model, seen, given)[KIND])
    gates = model.gates(seen, given)
    model.train(was_training)
    encoder = cast(ImageEncoder, model.encoder)
    grid, side = encoder.grid_of(size), encoder.pixels_per_cell
    reach = np.array([grid.columns, grid.rows]) * float(side)
    corners = framing.to_original(np.stack([np.zeros(2), reach]))
    cross = Attention(
        read_ids(subwords, tokens, after=[EOS]),
        cell_names(grid),
        maps,
        "query (word)",
        "key (cell)",
        by_layer(map(mechanism_of, maps)),
        by_layer(map(mask_of, maps)),
    )
    return CaptionRecord(
        original,
        framing,
        grid,
        Box(*corners.flatten().tolist()),
        Record(original.name, subwords.decode(tokens), {KIND: cross}),
        None if gates is None else tuple(gates[0].tolist()),
        versions(),
    )


def cell_names(grid: GridSize) -> Tokens:
    """The cells of a grid, row by row, as the keys of a record."""
    names = tuple(f"{row + 1}, {column + 1}" for row, column in np.ndindex(*grid))
    return Tokens(names, tuple(range(grid.n_cells)), names)


def check_numbers(records: Sequence[CaptionRecord]) -> None:
    """Refuse to write out more weights than anybody can open."""
    total = sum(record.n_numbers for record in records)
    if total > MOST_NUMBERS:
        raise LengthError(
            f"caption record: {total:,} weights are too many to write out; at most "
            f"{MOST_NUMBERS:,}. Take fewer pictures at a time, or look at one layer and head in "
            "Python: record.maps(layer, head)."
        )


def _plain(numbers: Float[Tensor, "..."]) -> object:
    """Nested lists with `DIGITS` decimal places."""
    return np.round(numbers.double().numpy(), DIGITS).tolist()
