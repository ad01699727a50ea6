"""How a word's map lies over a picture.

    heat        colours that grow brighter and denser with the weight, over a dim grey picture
    spotlight   the picture, dark where the weight is small
    cells       the colours of heat, cell by cell, exactly as the model weighed them

Heat and spotlight are smoothed for display, and say so.

Paper: Xu et al. 2015, figures 2 to 5, for the spotlight.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from regard.plots.colours import DARK
from regard.plots.smooth_maps import smooth

Grid = Float[np.ndarray, "rows columns"]


@dataclass(frozen=True)
class Overlay:
    """How a map lies over a picture."""

    said: str
    ramp: tuple[str, ...]
    """Colours of the smallest to the largest weight."""
    key: tuple[str, ...]
    """Their look, for the bar beside the panels."""
    density: Callable[[Grid], Grid]
    """How much of the picture they hide, for shares of the largest weight."""
    shape: Callable[[Grid], Grid]
    """The cells as they are drawn."""
    ground: Callable[[UInt8[np.ndarray, "y x 3"]], UInt8[np.ndarray, "y x 3"]]
    """The picture below."""


def _as_it_is(numbers: np.ndarray) -> np.ndarray:
    return numbers


def _dim_grey(pixels: UInt8[np.ndarray, "y x 3"]) -> UInt8[np.ndarray, "y x 3"]:
    """So that brightness and colour are the map's alone."""
    grey = pixels.astype(np.float32) @ np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)
    return np.repeat((0.6 * grey).astype(np.uint8)[..., None], 3, axis=-1)


def _dense(share: Grid) -> Grid:
    return 0.1 + 0.6 * np.sqrt(share)


OVERLAYS: Mapping[str, Overlay] = {
    "heat": Overlay("smoothed for display", DARK, DARK, _dense, smooth, _dim_grey),
    "spotlight": Overlay(
        "smoothed for display",
        ("#000000", "#000000"),
        ("#1f1f1f", "#ffffff"),
        lambda share: 0.88 * (1 - share),
        smooth,
        _as_it_is,
    ),
    "cells": Overlay("not smoothed", DARK, DARK, _dense, _as_it_is, _dim_grey),
}
"""By name."""


@dataclass(frozen=True)
class Scale:
    """What the brightest colour stands for."""

    tops: Callable[[Sequence[Grid]], list[float]]
    """The weight that each word's brightest colour stands for."""
    marks: Callable[[Sequence[float]], list[str]]
    """What stands beside the bar, evenly spaced, for those weights."""


def _shared_marks(tops: Sequence[float]) -> list[str]:
    top = max(tops, default=0.0)
    return [f"{share * top:.2g}" for share in (0.0, 0.5, 1.0)]


SCALES: Mapping[str, Scale] = {
    "word": Scale(
        lambda maps: [float(one.max()) for one in maps], lambda _: ["0", "the word's largest"]
    ),
    "caption": Scale(
        lambda maps: [max(float(one.max()) for one in maps)] * len(maps) if len(maps) else [],
        _shared_marks,
    ),
}
"""The largest weight of the word, or of all words of the caption."""
