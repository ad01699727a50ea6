"""Drawing of scenes with numpy alone: shapes as distances, so that edges are smooth at any size.

    cover = clip(1/2 − distance to the edge in pixels, 0, 1)
    pixel = cover · colour + (1 − cover) · background, and a little noise

The distance is negative inside a shape. Every shape fills a square of twice its half-width.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

ARM = 0.36
"""Half the width of a cross's arms, as a share of its half-width."""
JITTER = 10.0
"""How far a colour may be from its own, in each of red, green and blue."""
NOISE = 6.0
"""How far a pixel may be from what it should be."""
PAPER = (226.0, 248.0)
"""The greys that a background may have, before its tint."""
TINT = 6.0
SLOPE = 10.0
"""How much a background may change from one edge to the other."""

Grid = Float[np.ndarray, "y x"]


class Drawn(NamedTuple):
    """A shape to draw; places and sizes are shares of the picture."""

    shape: str
    colour: str
    x: float
    y: float
    half: float


def _circle(x: Grid, y: Grid, half: float) -> Grid:
    return np.hypot(x, y) - half


def _square(x: Grid, y: Grid, half: float) -> Grid:
    return np.maximum(np.abs(x), np.abs(y)) - half


def _triangle(x: Grid, y: Grid, half: float) -> Grid:
    """Standing on its base; its point is in the middle of the upper edge."""
    slant = (2 * np.abs(x) - (y + half)) / np.sqrt(5)
    return np.maximum(slant, y - half)


def _cross(x: Grid, y: Grid, half: float) -> Grid:
    long, short = np.abs(x) - half, np.abs(y) - ARM * half
    lying = np.maximum(long, short)
    standing = np.maximum(np.abs(x) - ARM * half, np.abs(y) - half)
    return np.minimum(lying, standing)


SHAPES: Mapping[str, Callable[[Grid, Grid, float], Grid]] = {
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


def draw_objects(
    objects: Sequence[Drawn], size: int, seed: tuple[int, ...]
) -> UInt8[np.ndarray, "y x 3"]:
    """A picture of `size` by `size` pixels; background, shades and noise follow from the seed."""
    draws = np.random.default_rng(seed)
    middle = np.arange(size) + 0.5
    x, y = np.meshgrid(middle, middle)
    picture = _paper(x / size, y / size, draws)
    for each in objects:
        distance = SHAPES[each.shape](x - each.x * size, y - each.y * size, each.half * size)
        cover = np.clip(0.5 - distance, 0, 1)[..., None]
        colour = np.array(COLOURS[each.colour]) + draws.uniform(-JITTER, JITTER, 3)
        picture = cover * colour + (1 - cover) * picture
    picture += draws.uniform(-NOISE, NOISE, picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _paper(x: Grid, y: Grid, draws: np.random.Generator) -> Float[np.ndarray, "y x 3"]:
    grey, tint = draws.uniform(*PAPER), draws.uniform(-TINT, TINT, 3)
    right, down = draws.uniform(-SLOPE, SLOPE, 2)
    return grey + tint + (right * (x - 0.5) + down * (y - 0.5))[..., None]
