"""Areas of upright rectangles, in pixels, and the rectangle that a cell of a grid shows."""

import numpy as np

from regard.data.boxes import Box


def cell_box(framing, row, column, grid):
    """What one cell of a grid of `grid` by `grid` cells shows of the picture."""
    corners = np.array([[column, row], [column + 1, row + 1]]) * framing.size / grid
    return Box(*framing.to_original(corners).flatten().tolist())


def area(box):
    return (box.right - box.left) * (box.bottom - box.top)


def shared(one, other):
    """How many pixels lie in both."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    return max(across, 0.0) * max(down, 0.0)
