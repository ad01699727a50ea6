"""How a word's map lies over a picture.

    heat        colours that grow brighter and denser with the weight, over a dim grey picture
    spotlight   the picture, dark where the weight is small
    cells       the colours of heat, cell by cell, exactly as the model weighed them

Heat and spotlight are smoothed for display, which `Overlay.note` states.

Paper: Xu et al. 2015, figures 2 to 5, for the spotlight.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from regard.plots.colours import DARK
from regard.plots.smooth_maps import smooth

Grid = Float[np.ndarray, "rows columns"]


DIM = 0.6
"""How bright a grey picture is, so that brightness and colour are the map's alone."""


@dataclass(frozen=True)
class Overlay:
    """How a map lies over a picture."""

    ramp: tuple[str, ...]
    """Colours of the smallest to the largest weight."""
    key: tuple[str, ...]
    """Their look, for the bar beside the panels."""
    density: Callable[[Grid], Grid]
    """How much of the picture they hide, for shares of the largest weight."""
    is_smooth: bool = True
    is_grey: bool = True

    @property
    def note(self) -> str:
        """The note beside the panels, on smoothing."""
        return "smoothed for display" if self.is_smooth else "not smoothed"

    def shape(self, cells: Grid) -> Float[np.ndarray, "y x"]:
        """The cells as they are drawn."""
        return smooth(cells) if self.is_smooth else cells

    def ground(self, pixels: UInt8[np.ndarray, "y x 3"]) -> UInt8[np.ndarray, "y x 3"]:
        """The picture below."""
        if not self.is_grey:
            return pixels
        grey = pixels.astype(np.float32) @ np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)
        return np.repeat((DIM * grey).astype(np.uint8)[..., None], 3, axis=-1)


def _dense(share: Grid) -> Grid:
    return 0.1 + 0.6 * np.sqrt(share)


BLACK = ("#000000", "#000000")
OVERLAYS: Mapping[str, Overlay] = {
    "heat": Overlay(DARK, DARK, _dense),
    "spotlight": Overlay(
        BLACK, ("#1f1f1f", "#ffffff"), lambda share: 0.88 * (1 - share), is_grey=False
    ),
    "cells": Overlay(DARK, DARK, _dense, is_smooth=False),
}
"""By name."""
