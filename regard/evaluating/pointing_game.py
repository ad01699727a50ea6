"""The pointing game: does a word's map point at the thing the word names?

    pointed = 1/T Σₜ [the centre of cell argmaxᵢ aₜᵢ lies in Bₜ]
    held    = 1/T Σₜ Σᵢ aₜᵢ · |cᵢ ∩ Bₜ| / |cᵢ|

with aₜ the map of word t, made to sum to 1, cᵢ the rectangle of cell i in the picture and Bₜ the
box of the thing that word t names; words that name nothing are left out. Where several cells share
the peak, each counts for its part. A map that is the same everywhere therefore earns just what
chance earns: the share of cells whose centre lies in the box, and the share of them it covers.

A thing so small that no cell has its centre in the box cannot be pointed at; `reachable` counts the
others.

Paper: Zhang et al. 2016 (the peak); Liu et al. 2017 (the mass, "attention correctness").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.data.boxes import Box
from regard.errors import ShapeError
from regard.evaluating.score import Score


@dataclass(frozen=True)
class Pointing:
    """Sums over words; those of two captions add up."""

    words: int = 0
    hits: float = 0.0
    """Words whose peak lies in the box; a peak shared by several cells counts in parts."""
    mass: float = 0.0
    """What lies in the boxes, each word's map counting for 1."""
    chance_hits: float = 0.0
    chance_mass: float = 0.0
    reachable: int = 0
    """Words whose box holds the centre of some cell."""

    def __add__(self, other: "Pointing") -> "Pointing":
        return Pointing(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def pointed(self) -> float:
        """The share of words whose peak lies in the box."""
        return self.hits / max(self.words, 1)

    @property
    def held(self) -> float:
        """How much of a map lies in the box, on average."""
        return self.mass / max(self.words, 1)

    @property
    def pointed_by_chance(self) -> float:
        """What a map that is the same everywhere would point at."""
        return self.chance_hits / max(self.words, 1)

    @property
    def held_by_chance(self) -> float:
        """What a map that is the same everywhere would hold."""
        return self.chance_mass / max(self.words, 1)

    def scores(self) -> tuple[Score, Score]:
        """Both numbers in per cent, with what chance earns in their signatures.

        >>> print(*Pointing(8, 6.0, 5.0, 1.0, 1.5, 8).scores(), sep="; ")
        pointing 75.00 (words:8|peak:centre|chance:12.50|percent); \
mass in box 62.50 (words:8|chance:18.75|percent)
        """
        chance, mass = 100 * self.pointed_by_chance, 100 * self.held_by_chance
        return (
            Score(
                "pointing",
                100 * self.pointed,
                f"words:{self.words}|peak:centre|chance:{chance:.2f}|percent",
            ),
            Score("mass in box", 100 * self.held, f"words:{self.words}|chance:{mass:.2f}|percent"),
        )


def pointing_game(
    maps: Float[Tensor, "t l"],
    boxes: Sequence[Box | None],
    classes: Sequence[str],
    cells: Float[Tensor, "l 4"],
) -> dict[str, Pointing]:
    """Play one caption; the answer is by class of word, in the order in which they come.

    Args:
        maps: a row a word, a column a cell, row by row of the grid.
        boxes: where in the picture the thing is that each word names; None where it names nothing.
        classes: what kind of word each is, such as "colour" or "shape".
        cells: left, top, right and bottom of each cell in the picture, see `grid_cells`.
    """
    if not len(maps) == len(boxes) == len(classes) or maps.shape[1] != len(cells):
        raise ShapeError(
            f"pointing_game: expected a box (or None) and a class for each of {len(maps)} maps and "
            f"{maps.shape[1]} cells, got {len(boxes)} boxes, {len(classes)} classes and "
            f"{len(cells)} cells."
        )
    named = [row for row, box in enumerate(boxes) if box is not None]
    if not named:
        return {}
    weights, cells = maps[named].detach().cpu().double(), cells.cpu().double()
    _check(weights, named)
    wanted = torch.tensor([boxes[row] for row in named], dtype=torch.float64)
    inside, covered = _inside(wanted, cells), _covered(wanted, cells)
    peak = weights == weights.amax(-1, keepdim=True)
    hits = (peak & inside).double().sum(-1) / peak.sum(-1)
    mass = (weights * covered).sum(-1) / weights.sum(-1)
    games = (
        {
            classes[row]: Pointing(
                words=1,
                hits=float(hits[number]),
                mass=float(mass[number]),
                chance_hits=float(inside[number].double().mean()),
                chance_mass=float(covered[number].mean()),
                reachable=int(inside[number].any()),
            )
        }
        for number, row in enumerate(named)
    )
    return together(games)


def together(games: Iterable[Mapping[str, Pointing]]) -> dict[str, Pointing]:
    """Many captions as one, class by class.

    >>> together([{"shape": Pointing(2, 1.0)}, {"colour": Pointing(1), "shape": Pointing(1, 1.0)}])[
    ...     "shape"
    ... ].pointed
    0.6666666666666666
    """
    found: dict[str, Pointing] = {}
    for game in games:
        for name, one in game.items():
            found[name] = found.get(name, Pointing()) + one
    return found


def all_words(game: Mapping[str, Pointing]) -> Pointing:
    """All classes as one."""
    return sum(game.values(), Pointing())


def grid_cells(rows: int, columns: int, shown: Box) -> Float[Tensor, "l 4"]:
    """The cells of a regular grid, row by row: left, top, right and bottom of each.

    >>> grid_cells(1, 2, Box(0.0, 0.0, 8.0, 4.0)).tolist()
    [[0.0, 0.0, 4.0, 4.0], [4.0, 0.0, 8.0, 4.0]]

    Args:
        rows: cells from top to bottom.
        columns: cells from left to right.
        shown: the part of the picture that the model saw, in the picture's pixels.
    """
    x = torch.linspace(shown.left, shown.right, columns + 1, dtype=torch.float64)
    y = torch.linspace(shown.top, shown.bottom, rows + 1, dtype=torch.float64)
    top, left = torch.meshgrid(y[:-1], x[:-1], indexing="ij")
    bottom, right = torch.meshgrid(y[1:], x[1:], indexing="ij")
    return torch.stack([left, top, right, bottom], -1).flatten(0, 1)


def _inside(boxes: Float[Tensor, "t 4"], cells: Float[Tensor, "l 4"]) -> Bool[Tensor, "t l"]:
    """Whether each cell's centre lies in each box; left and upper edges belong to the box."""
    centres = (cells[:, :2] + cells[:, 2:]) / 2
    corners = boxes[:, None, :2], boxes[:, None, 2:]
    return ((corners[0] <= centres) & (centres < corners[1])).all(-1)


def _covered(boxes: Float[Tensor, "t 4"], cells: Float[Tensor, "l 4"]) -> Float[Tensor, "t l"]:
    """How much of each cell each box covers, as a share."""
    low = torch.maximum(boxes[:, None, :2], cells[:, :2])
    high = torch.minimum(boxes[:, None, 2:], cells[:, 2:])
    return (high - low).clamp(min=0).prod(-1) / (cells[:, 2:] - cells[:, :2]).prod(-1)


def _check(weights: Float[Tensor, "t l"], named: Sequence[int]) -> None:
    wrong = ~weights.isfinite().all(-1) | (weights < 0).any(-1) | (weights.sum(-1) <= 0)
    if wrong.any():
        row = named[int(wrong.nonzero()[0])]
        raise ShapeError(
            f"pointing_game: the map of word {row + 1} is no map: expected weights from 0 up, not "
            "all of them 0. Give the weights after the softmax, without padded rows."
        )
