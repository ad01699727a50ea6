"""The pointing game: how often a word's map peaks in the box of the object that the word names.

    pointed = 1/T Σₜ [the centre of cell argmaxᵢ aₜᵢ lies in Bₜ]
    held    = 1/T Σₜ Σᵢ aₜᵢ · |cᵢ ∩ Bₜ| / |cᵢ|

with aₜ the map of word t, made to sum to 1, cᵢ the rectangle of cell i in the picture and Bₜ the
box of the object that word t names; words without an object are left out. Where several cells share
the peak, each counts for its part. A uniform map therefore scores exactly
chance: the share of cells whose centre lies in the box, and the share of them it covers.

An object so small that no cell has its centre in the box cannot be hit; `reachable` counts the
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
from regard.evaluating.score import MetricScore


@dataclass(frozen=True)
class Pointing:
    """Sums over words; those of two captions can be added."""

    words: int = 0
    hits: float = 0.0
    """Words whose peak lies in the box; a peak shared by several cells counts in parts."""
    mass: float = 0.0
    """The weight inside the boxes; each word's map sums to 1."""
    chance_hits: float = 0.0
    chance_mass: float = 0.0
    reachable: int = 0
    """Words whose box holds the centre of some cell."""

    def __add__(self, other: "Pointing") -> "Pointing":
        return Pointing(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def per_word(self, total: float | int) -> float:
        """One of the sums as a mean over words: `hits` give the share of words that point right."""
        return total / max(self.words, 1)

    def scores(self) -> tuple[MetricScore, MetricScore]:
        """Both numbers in per cent; their signatures hold the score of chance.

        >>> print(*Pointing(8, 6.0, 5.0, 1.0, 1.5, 8).scores(), sep="; ")
        pointing 75.00 (words:8|peak:centre|chance:12.50|percent); \
mass in box 62.50 (words:8|chance:18.75|percent)
        """
        hits, mass, chance_hits, chance_mass = (
            100 * self.per_word(total)
            for total in (self.hits, self.mass, self.chance_hits, self.chance_mass)
        )
        peak = f"words:{self.words}|peak:centre|chance:{chance_hits:.2f}|percent"
        held = f"words:{self.words}|chance:{chance_mass:.2f}|percent"
        return MetricScore("pointing", hits, peak), MetricScore("mass in box", mass, held)


def pointing_game(
    maps: Float[Tensor, "t l"],
    boxes: Sequence[Box | None],
    classes: Sequence[str],
    cells: Float[Tensor, "l 4"],
) -> dict[str, Pointing]:
    """Score one caption; results are by class of word, in order of occurrence.

    Each word has a map, the box of the thing it names in the picture (None where it names nothing)
    and a class, such as "colour" or "shape". `cells` are those of `grid_cells`.
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
    """The sums of many captions, by class.

    >>> together([{"shape": Pointing(2, 1.0)}, {"shape": Pointing(1, 1.0)}])["shape"].hits
    2.0
    """
    found: dict[str, Pointing] = {}
    for game in games:
        for name, one in game.items():
            found[name] = found.get(name, Pointing()) + one
    return found


def grid_cells(rows: int, columns: int, shown: Box) -> Float[Tensor, "l 4"]:
    """The cells of a regular grid over a part of a picture: left, top, right and bottom of each.

    >>> grid_cells(1, 2, Box(0.0, 0.0, 8.0, 4.0)).tolist()
    [[0.0, 0.0, 4.0, 4.0], [4.0, 0.0, 8.0, 4.0]]
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
