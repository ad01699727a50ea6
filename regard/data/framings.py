"""Framings: which rectangle of a picture a square of pixels shows, and the way back.

    crop      the largest square in the middle; proportions are kept, the edges are lost
    squeeze   the whole picture; nothing is lost, a wide picture becomes narrow

    x of the picture = left + x of the square · (right − left) / size, and y the same way

A framing is kept with its picture, so that the cells of an attention map over the square can be
drawn on the original picture.
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
        """The square, channels first; each pixel is a smoothed mean of those that it covers."""
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
        left, top, right, bottom = self.box
        scale = np.array([right - left, bottom - top]) / self.size
        return np.array([left, top]) + points * scale


FRAMINGS: Mapping[str, Callable[[int, int, int], Framing]] = {
    "crop": Framing.cropped,
    "squeeze": Framing.squeezed,
}
"""How a framing is made from a picture's width and height and the size of the square."""
