"""Boxes: upright rectangles in a picture, in pixels, counted from its upper left corner.

Pixel i reaches from i to i + 1, so the box of the whole picture is (0, 0, width, height).
"""

from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle.

    >>> Box(0.0, 0.0, 4.0, 2.0).shared(Box(3.0, 1.0, 9.0, 9.0))
    1.0
    """

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """How many pixels it covers."""
        return (self.right - self.left) * (self.bottom - self.top)

    def holds(self, x: float | int, y: float | int) -> bool:
        """Whether a point lies inside; the left and upper edges belong to the box."""
        return self.left <= x < self.right and self.top <= y < self.bottom

    def shared(self, other: "Box") -> float:
        """How many pixels lie in both."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(across, 0.0) * max(down, 0.0)
