"""Scenes: drawn pictures with their only right caption, and the box of each word's object.

    a small red circle left of a large blue square
    a large orange cross above a small green triangle right of a large purple circle

One to three objects, all of different colours. They are named in the order of the rainbow: red
before orange before yellow before green before blue before purple. A relation stands between two
neighbours in the caption and says where the former is, seen from the latter; along its direction
their centres lie at least three times as far apart as across it. So the caption follows from the
picture, and so does the order of its words.

A scene is a pure function of a seed and a number, its address is scene:SEED-NUMBER, and nothing
is kept on disk. It is drawn by numpy alone, shapes as distances, so that edges are smooth at any
size:

    cover = clip(1/2 − distance to the edge in pixels, 0, 1)
    pixel = cover · colour + (1 − cover) · background, and a little noise

The distance is negative inside a shape. Every shape fills a square of twice its half-width.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count as counted
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from regard.data.boxes import Box
from regard.data.examples import Example
from regard.data.splits import distinct
from regard.errors import DataError, SettingError

SIZE = 64
"""Pixels along a side, unless others are asked for."""
HALVES: Mapping[str, float] = {"small": 0.085, "large": 0.155}
"""Half the width of an object of a size, as a share of the picture."""
RELATIONS: Mapping[str, tuple[int, int]] = {
    "left of": (-1, 0),
    "right of": (1, 0),
    "above": (0, -1),
    "below": (0, 1),
}
"""In which direction (x, y) the former object lies, seen from the latter."""
MAX_OBJECTS = 3
GAP = 0.05
"""The least space between two objects, and between an object and the edge the half of it."""
SPREAD = 0.2
"""How much further than that neighbours may be apart."""
DOMINANCE = 3.0
"""How many times further apart neighbours are along their relation than across it, at least."""
CELLS = 8
"""Layouts count as the same if every object's centre is in the same cell of so many by so many."""
ADDRESS = re.compile(r"scene:(\d+)-(\d+)")
ARM = 0.36
"""Half the width of a cross's arms, as a share of its half-width."""
JITTER = 10.0
"""How far a colour may be from its own, in each of red, green and blue."""
NOISE = 6.0
"""How far a pixel may be from what it should be."""
PAPER, TINT, SLOPE = (226.0, 248.0), 6.0, 10.0
"""A background's greys, its tint, and how much it may change from one edge to the other."""

Plane = Float[np.ndarray, "y x"]


def _circle(x: Plane, y: Plane, half: float) -> Plane:
    return np.hypot(x, y) - half


def _square(x: Plane, y: Plane, half: float) -> Plane:
    return np.maximum(np.abs(x), np.abs(y)) - half


def _triangle(x: Plane, y: Plane, half: float) -> Plane:
    """Standing on its base; its point is in the middle of the upper edge."""
    slant = (2 * np.abs(x) - (y + half)) / np.sqrt(5)
    return np.maximum(slant, y - half)


def _cross(x: Plane, y: Plane, half: float) -> Plane:
    long, short = np.abs(x) - half, np.abs(y) - ARM * half
    lying = np.maximum(long, short)
    standing = np.maximum(np.abs(x) - ARM * half, np.abs(y) - half)
    return np.minimum(lying, standing)


SHAPES: Mapping[str, Callable[[Plane, Plane, float], Plane]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
}
"""How far each pixel is from the edge of a shape whose centre is at (0, 0)."""

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (214, 39, 40),
    "orange": (246, 139, 31),
    "yellow": (240, 212, 20),
    "green": (44, 150, 60),
    "blue": (38, 92, 212),
    "purple": (138, 58, 178),
}
"""In the order of the rainbow, in which they are named."""


@final
@dataclass(frozen=True)
class SceneObject:
    """One object: how it looks, and where its centre is, as a share of the picture."""

    size: str
    colour: str
    shape: str
    x: float
    y: float
    half: float
    """Half of its width and of its height."""

    @property
    def name(self) -> str:
        """The words for it."""
        return f"a {self.size} {self.colour} {self.shape}"

    def box(self, size: int) -> Box:
        """The pixels it covers in a picture of this size."""
        x, y, half = self.x * size, self.y * size, self.half * size
        return Box(x - half, y - half, x + half, y + half)


@final
@dataclass(frozen=True)
class Scene:
    """Objects in the order in which they are named, and the relations between neighbours."""

    seed: int
    number: int
    objects: tuple[SceneObject, ...]
    relations: tuple[str, ...]

    @property
    def address(self) -> str:
        """The address from which the scene can be drawn again."""
        return f"scene:{self.seed}-{self.number}"

    @property
    def caption(self) -> str:
        """The one right answer."""
        first, *others = (each.name for each in self.objects)
        pairs = zip(self.relations, others, strict=True)
        return " ".join([first, *(f"{relation} {name}" for relation, name in pairs)])

    @property
    def layout(self) -> str:
        """The caption and roughly where its objects are; scenes of two splits never share it."""
        cells = (f"{int(each.x * CELLS)},{int(each.y * CELLS)}" for each in self.objects)
        return f"{self.caption} @ {' '.join(cells)}"

    def word_boxes(self, size: int = SIZE) -> tuple[Box | None, ...]:
        """For every word of the caption the box of the object it describes.

        None for the words that describe no object: a, of, and those of relations.
        """
        found: list[Box | None] = []
        for relation, each in zip(("", *self.relations), self.objects, strict=True):
            found += [None] * len(relation.split())
            found += [None, *[each.box(size)] * 3]
        return tuple(found)

    def draw(self, size: int = SIZE) -> UInt8[np.ndarray, "y x 3"]:
        """The picture; background, shades and noise follow from seed and number."""
        draws = np.random.default_rng((self.seed, self.number))
        middle = np.arange(size) + 0.5
        x, y = np.meshgrid(middle, middle)
        picture = _paper(x / size, y / size, draws)
        for each in self.objects:
            distance = SHAPES[each.shape](x - each.x * size, y - each.y * size, each.half * size)
            cover = np.clip(0.5 - distance, 0, 1)[..., None]
            colour = np.array(COLOURS[each.colour]) + draws.uniform(-JITTER, JITTER, 3)
            picture = cover * colour + (1 - cover) * picture
        picture += draws.uniform(-NOISE, NOISE, picture.shape)
        return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def scene(seed: int, number: int) -> Scene:
    """The scene of this seed and number.

    >>> scene(0, 4).caption == scene(0, 4).caption
    True
    """
    if seed < 0 or number < 0:
        raise SettingError(f"scenes: seed and number must be at least 0, got {seed} and {number}.")
    draws = random.Random(f"scenes/{seed}/{number}")
    n_objects = draws.randint(1, MAX_OBJECTS)
    chosen = draws.sample(list(COLOURS), n_objects)
    colours = [colour for colour in COLOURS if colour in chosen]
    sizes = draws.choices(list(HALVES), k=n_objects)
    shapes = draws.choices(list(SHAPES), k=n_objects)
    halves = [HALVES[size] * draws.uniform(0.94, 1.06) for size in sizes]
    while True:
        relations = draws.choices(list(RELATIONS), k=n_objects - 1)
        centres = _placed(halves, relations, draws)
        if centres is not None:
            break
    looks = zip(sizes, colours, shapes, centres, halves, strict=True)
    objects = tuple(
        SceneObject(size, colour, shape, x, y, half) for size, colour, shape, (x, y), half in looks
    )
    return Scene(seed, number, objects, tuple(relations))


def scenes(
    split: str,
    count: int,
    *,
    seed: int = 0,
    min_objects: int = 1,
    max_objects: int = MAX_OBJECTS,
) -> Iterator[Example]:
    """Addresses of scenes with their captions; no test scene is in any training split.

    The split of a scene is decided by its caption together with the rough places of its objects:
    no test scene shares both with any training scene, under any seed.

    >>> next(scenes("train", 1)).source.startswith("scene:0-")
    True
    """
    if not 1 <= min_objects <= max_objects <= MAX_OBJECTS:
        raise SettingError(
            f"scenes: expected 1 <= min_objects <= max_objects <= {MAX_OBJECTS}, got {min_objects}"
            f" and {max_objects}."
        )
    found = (scene(seed, number) for number in counted())
    wanted = (each for each in found if min_objects <= len(each.objects) <= max_objects)

    def draw() -> Example:
        drawn = next(wanted)
        n_objects = len(drawn.objects)
        group = f"{n_objects} object{'s' if n_objects > 1 else ''}"
        return Example(drawn.address, (drawn.caption,), group=group)

    return distinct("scenes", split, count, draw, lambda e: scene_at(e.source).layout)


def is_scene(address: str) -> bool:
    """Whether an address is meant for a scene."""
    return address.startswith("scene:")


def scene_at(address: str) -> Scene:
    """The scene that an address names."""
    found = ADDRESS.fullmatch(address)
    if not found:
        raise DataError(f"scenes: '{address}' is no scene; expected scene:SEED-NUMBER.")
    return scene(int(found[1]), int(found[2]))


def _placed(
    halves: list[float], relations: list[str], draws: random.Random
) -> list[tuple[float, float]] | None:
    """Centres that keep the relations; None where the objects touch or do not fit."""
    centres = [(0.0, 0.0)]
    for relation, (former, latter) in zip(relations, pairwise(halves), strict=True):
        along = former + latter + GAP + SPREAD * draws.random()
        across = draws.uniform(-1, 1) * along / DOMINANCE
        right, down = RELATIONS[relation]
        x, y = centres[-1]
        # the former lies that way from the latter, so the latter lies the other way
        centres.append((x - right * along + down * across, y - down * along + right * across))
    if len(centres) == MAX_OBJECTS:
        (x, y), _, (other_x, other_y) = centres
        if max(abs(x - other_x), abs(y - other_y)) < halves[0] + halves[-1] + GAP:
            return None
    shifts = [_shift([c[axis] for c in centres], halves, draws) for axis in (0, 1)]
    if shifts[0] is None or shifts[1] is None:
        return None
    return [(x + shifts[0], y + shifts[1]) for x, y in centres]


def _shift(places: list[float], halves: list[float], draws: random.Random) -> float | None:
    """The range of shifts along one axis that keep all objects inside the picture."""
    least = GAP / 2 - min(p - h for p, h in zip(places, halves, strict=True))
    most = 1 - GAP / 2 - max(p + h for p, h in zip(places, halves, strict=True))
    return draws.uniform(least, most) if least <= most else None


def _paper(x: Plane, y: Plane, draws: np.random.Generator) -> Float[np.ndarray, "y x 3"]:
    grey, tint = draws.uniform(*PAPER), draws.uniform(-TINT, TINT, 3)
    right, down = draws.uniform(-SLOPE, SLOPE, 2)
    return grey + tint + (right * (x - 0.5) + down * (y - 0.5))[..., None]
