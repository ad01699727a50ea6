"""Two colour ramps for weights, for light and dark backgrounds; zero has the background's colour.

Lightness changes evenly along both (in OKLab), so that they can be read without seeing colours.
Terminal, page and figures draw with the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

RGB = tuple[int, int, int]

LIGHT = (
    "#ffffff", "#dbe8c8", "#acd499", "#67bf96", "#09a3a9", "#0981a7", "#105ea0", "#1e4085",
    "#202268",
)  # fmt: skip
"""On white paper."""
DARK = (
    "#16181b", "#312652", "#5f2b78", "#9c2f74", "#d43a56", "#ec6c3d", "#f79e3f", "#f8cc72",
    "#faf6af",
)  # fmt: skip
"""On a dark ground."""
RAMPS = {"light": LIGHT, "dark": DARK}
"""The ramps in the form that pages use."""


def weight_colours() -> Colormap:
    """The light ramp as a colour map of matplotlib, whose figures stand on white paper."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", LIGHT)


def colour(ramp: Sequence[str], share: float) -> RGB:
    """The colour at a share of the ramp, from 0 to 1, mixed from its neighbours.

    >>> colour(LIGHT, 0.0), colour(LIGHT, 1.0)
    ((255, 255, 255), (32, 34, 104))
    """
    place = min(max(share, 0.0), 1.0) * (len(ramp) - 1)
    left = min(int(place), len(ramp) - 2)
    low, high = (_numbers(ramp[i]) for i in (left, left + 1))
    red, green, blue = (round(a + (b - a) * (place - left)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def ink(ground: RGB) -> RGB:
    """Black or white, whichever has more contrast on a background.

    >>> ink((255, 255, 255)), ink((32, 34, 104))
    ((0, 0, 0), (255, 255, 255))
    """
    return (0, 0, 0) if luminance(ground) > 0.179 else (255, 255, 255)


def luminance(colour: RGB) -> float:
    """How bright a colour is, from 0 to 1, as the rules for readable text count it."""
    red, green, blue = (_linear(part / 255) for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _numbers(text: str) -> RGB:
    red, green, blue = (int(text[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue
