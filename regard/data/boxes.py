"""Boxes: upright rectangles in a picture, in pixels, counted from its upper left corner.

Pixel i reaches from i to i + 1, so the box of the whole picture is (0, 0, width, height).
"""

from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float
