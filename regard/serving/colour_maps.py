"""Colour maps for weights and for differences, as the page draws them.

The house's own ramps come first. The others may be chosen: all go evenly from dark to light, so
that they can be read without seeing colours, and matplotlib has them under the same names. On white
paper they run backwards (`viridis_r`), since nothing has to look like the ground.
"""

from collections.abc import Mapping, Sequence

from regard.plots.colours import DARK, LIGHT

Ramp = Sequence[str]

DIVERGING = (
    "#7f3b08", "#b35806", "#e08214", "#fdb863", "#f7f7f7", "#b2abd2", "#8073ac", "#542788",
    "#2d004b",
)  # fmt: skip
"""For differences, on white: brown below nothing, violet above it, told apart by everybody."""
DIVERGING_DARK = (
    "#ffd9a0", "#f6ae55", "#c97a16", "#7a4506", "#16181b", "#45377a", "#7464b8", "#a99bdd",
    "#ded7f7",
)  # fmt: skip
MAPS: Mapping[str, Ramp] = {
    "cividis": (
        "#00224e", "#00285b", "#002e6a", "#053371", "#1a386f", "#273e6e", "#32436d", "#3b496c",
        "#434e6c", "#4b546c", "#535a6d", "#5a5f6e", "#61656f", "#686a71", "#6f7073", "#767676",
        "#7d7c78", "#848279", "#8c8878", "#938e78", "#9b9476", "#a39a74", "#aba072", "#b4a76f",
        "#bcae6c", "#c4b468", "#cdbb63", "#d5c25e", "#dec958", "#e7d150", "#f0d846", "#f9e03a",
        "#fee838",
    ),
    "viridis": (
        "#440154", "#470d60", "#48186a", "#482374", "#472d7b", "#453781", "#424086", "#3e4989",
        "#3b528b", "#375b8d", "#33638d", "#2f6b8e", "#2c728e", "#297a8e", "#26828e", "#23898e",
        "#21918c", "#1f988b", "#1fa088", "#22a785", "#28ae80", "#32b67a", "#3fbc73", "#4ec36b",
        "#5ec962", "#70cf57", "#84d44b", "#98d83e", "#addc30", "#c2df23", "#d8e219", "#ece51b",
        "#fde725",
    ),
    "magma": (
        "#000004", "#030312", "#0a0822", "#130d34", "#1d1147", "#29115a", "#36106b", "#440f76",
        "#51127c", "#5d177f", "#6a1c81", "#762181", "#832681", "#902a81", "#9c2e7f", "#aa337d",
        "#b73779", "#c43c75", "#d0416f", "#dc4869", "#e75263", "#ef5d5e", "#f56b5c", "#f9795d",
        "#fc8961", "#fd9869", "#fea772", "#feb67c", "#fec488", "#fed395", "#fde2a3", "#fcf0b2",
        "#fcfdbf",
    ),
    "gray": ("#000000", "#ffffff"),
}  # fmt: skip
"""From dark to light: 33 colours between which the page mixes."""


def colour_ramps() -> dict[str, object]:
    """The ramps that everything is drawn with, for each theme, in the order they are offered."""
    return {
        "light": {
            "weights": list(LIGHT),
            "differences": list(DIVERGING),
            "maps": {
                name: {"name": f"{name}_r", "ramp": list(reversed(ramp))}
                for name, ramp in MAPS.items()
            },
        },
        "dark": {
            "weights": list(DARK),
            "differences": list(DIVERGING_DARK),
            "maps": {name: {"name": name, "ramp": list(ramp)} for name, ramp in MAPS.items()},
        },
    }
