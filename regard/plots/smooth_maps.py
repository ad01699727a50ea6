"""Smooth maps for display: a map of a few cells becomes a picture without hard edges.

    S = A M Bᵀ,   A = G E

with M the weights of the cells, E linear interpolation between the centres of cells, and G a
Gaussian blur of standard deviation 20/224 of the side, as the authors of Show, Attend and Tell drew
theirs. B is the same for columns. Edges are mirrored, so that a flat map stays flat.

A smoothed map is not what the model computed: callers state this, and offer the raw cells too.

Paper: Xu et al. 2015, the authors' code for figures.
"""

import numpy as np
from jaxtyping import Float

POINTS = 224
"""On a side; as many more as make them a whole number in every cell."""
SIGMA = 20 / 224
"""Standard deviation, as a share of the side."""


def smooth(cells: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "y x"]:
    """A smoothed map of more rows and columns, in the same unit: weight per cell.

    >>> smooth(np.full((7, 14), 0.5)).shape, smooth(np.full((1, 300), 0.5)).shape
    ((224, 224), (224, 300))
    """
    down, across = (spreading(count) for count in cells.shape)
    return down @ cells @ across.T


def spreading(count: int) -> Float[np.ndarray, "fine count"]:
    """The matrix that smooths along a side of so many cells: A."""
    fine = -(-POINTS // count)
    points = (np.arange(count * fine) + 0.5) / fine
    centres = np.arange(count) + 0.5
    between = np.stack([np.interp(points, centres, row) for row in np.eye(count)], axis=-1)
    # a point and its mirror images at 0 and at the other end
    images = np.stack([points, -points, 2 * count - points])
    near = np.exp(-(((points[:, None, None] - images) / (SIGMA * count)) ** 2) / 2).sum(axis=1)
    return near / near.sum(axis=1, keepdims=True) @ between
