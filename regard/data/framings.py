"""Framing: which rectangle of a picture a square of pixels shows, and the way back.

    crop      the largest square in the middle; the shape of things is kept, the edges are lost
    squeeze   the whole picture; nothing is lost, a wide picture becomes narrow

    x of the picture = left + x of the square · (right − left) / size, and y the same way

A framing stays with its picture, so that what is known of the square, such as the cells of an
attention map, can be drawn on the picture as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from regard.data.boxes import Box
from regard.data.pictures import Picture, pillow
from regard.errors import SettingError


@final
@dataclass(frozen=True)
class Framing:
    """A square of `size` pixels that shows `box` of a picture of `width` by `height` pixels."""

    width: int
    height: int
    size: int
    box: Box

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"framing: size must be at least 1, got {self.size}.")

    @classmethod
    def cropped(cls, width: int, height: int, size: int) -> "Framing":
        """The largest square in the middle.

        >>> Framing.cropped(300, 200, 64).box
        Box(left=50.0, top=0.0, right=250.0, bottom=200.0)
        """
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        return cls(width, height, size, Box(left, top, left + side, top + side))

    @classmethod
    def squeezed(cls, width: int, height: int, size: int) -> "Framing":
        """The whole picture, however wide or high it is."""
        return cls(width, height, size, Box(0.0, 0.0, float(width), float(height)))

    def square(self, picture: Picture) -> UInt8[np.ndarray, "3 y x"]:
        """The square, colours first; each of its pixels is the mean of what it covers, smoothed."""
        if picture.pixels.shape[:2] == (self.size, self.size) == (self.height, self.width):
            return np.ascontiguousarray(picture.pixels.transpose(2, 0, 1))
        # the pixels may be fewer than the picture has
        y, x = picture.pixels.shape[0] / self.height, picture.pixels.shape[1] / self.width
        left, top, right, bottom = self.box
        image = pillow()
        resized = image.fromarray(picture.pixels).resize(
            (self.size, self.size),
            image.Resampling.BICUBIC,
            box=(left * x, top * y, right * x, bottom * y),
        )
        return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))

    def to_original(self, points: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
        """Points (x, y) of the square as points of the picture."""
        return self._corner + points * self._scale

    def to_square(self, points: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
        """Points (x, y) of the picture as points of the square; some may lie outside it."""
        return (points - self._corner) / self._scale

    def cell_box(self, row: int, column: int, grid: int) -> Box:
        """What one cell of a grid of `grid` by `grid` cells shows of the picture."""
        if not (0 <= row < grid and 0 <= column < grid):
            raise SettingError(
                f"framing: rows and columns of a grid of {grid} are 0 to {grid - 1}, got row {row} "
                f"and column {column}."
            )
        cell = self.size / grid
        corners = np.array([[column, row], [column + 1, row + 1]]) * cell
        (left, top), (right, bottom) = self.to_original(corners).tolist()
        return Box(left, top, right, bottom)

    @property
    def _corner(self) -> np.ndarray:
        return np.array([self.box.left, self.box.top])

    @property
    def _scale(self) -> np.ndarray:
        left, top, right, bottom = self.box
        return np.array([right - left, bottom - top]) / self.size


FRAMINGS: Mapping[str, Callable[[int, int, int], Framing]] = {
    "crop": Framing.cropped,
    "squeeze": Framing.squeezed,
}
"""How a framing is made from a picture's width and height and the size of the square."""
