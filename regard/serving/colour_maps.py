"""Colour maps for weights and for differences, as the page draws them.

regard's own ramps come first. The others can be chosen: all go evenly from dark to light, so that
they can be read without seeing colours, and matplotlib has them under the same names. On white they
are reversed (`viridis_r`), since weight 0 must look like the background.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.plots.colours import DARK, LIGHT

Ramp = Sequence[str]

COLOURS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
DIFFERENCES: Mapping[str, Ramp] = COLOURS["differences"]
"""For each theme: brown below zero and violet above it, also for colour-blind readers."""
MAPS: Mapping[str, Ramp] = COLOURS["maps"]
"""From dark to light: 33 colours between which the page mixes."""


def colour_ramps() -> dict[str, object]:
    """The ramps for each theme, in the order of the page's menu."""
    return {
        "light": {
            "weights": LIGHT,
            "differences": DIFFERENCES["light"],
            "maps": {
                name: {"name": f"{name}_r", "ramp": ramp[::-1]} for name, ramp in MAPS.items()
            },
        },
        "dark": {
            "weights": DARK,
            "differences": DIFFERENCES["dark"],
            "maps": {each: {"name": each, "ramp": MAPS[each]} for each in MAPS},
        },
    }
