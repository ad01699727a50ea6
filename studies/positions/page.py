"""The tables and pictures of docs/positions.md, from the numbers in results.json."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from regard.plots.charts import curves
from studies.pictures import picture
from studies.tables import table

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
PLACES = 32
"""Words whose losses are one point of a curve."""
HOLDS = 0.1
"""Nats by which a loss may rise behind the training length, and still be called holding."""


def results() -> dict:
    return json.loads(RESULTS.read_text())


def losses(cell: Mapping, times: str) -> list[float]:
    """Of every seed, at so many times the training length."""
    return [seed["read"][times]["loss"] for seed in cell["seeds"].values()]


def by_place(cell: Mapping) -> list[float]:
    """The mean of all seeds by place, in rows of four times the training length."""
    return [mean(each) for each in zip(*_by_place_of(cell), strict=True)]


def _by_place_of(cell: Mapping) -> list[list[float]]:
    longest = max(next(iter(cell["seeds"].values()))["read"], key=int)
    return [seed["read"][longest]["by_place"] for seed in cell["seeds"].values()]


def holding(found: Mapping) -> list[str]:
    """Cells whose words at the far end of a long row are about as well guessed as near ones."""
    last = found["length"] // PLACES
    curves_of = {name: by_place(cell) for name, cell in found["cells"].items()}
    return [name for name, line in curves_of.items() if line[-1] < line[last - 1] + HOLDS]


def tables() -> dict[str, str]:
    """What stands between each pair of marks."""
    return {"losses": losses_table(results())}


def losses_table(found: Mapping) -> str:
    times = list(next(iter(next(iter(found["cells"].values()))["seeds"].values()))["read"])
    rows = [
        [
            name,
            f"{cell['parameters'] / 1e6:.2f}",
            *(_spread(losses(cell, each)) for each in times),
            f"{math.exp(mean(losses(cell, times[-1]))):.0f}",
        ]
        for name, cell in found["cells"].items()
    ]
    lengths = [f"{int(each) * found['length']} words" for each in times]
    last = f"perplexity, {lengths[-1]}"
    return table(["", "parameters, million", *lengths, last], rows)


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    found = results()
    lines = {
        name: [((place + 0.5) * PLACES, loss) for place, loss in enumerate(by_place(cell))]
        for name, cell in found["cells"].items()
    }
    held = {name: lines[name] for name in holding(found)}
    # first in both, so that they have the same colours
    lines = {**held, **lines}
    title = "Loss by place in rows of four training lengths, nats per word"
    near = "The same for those that hold"
    x_title = f"place of the word; training rows end at {found['length']}"
    return {
        DOCS / "img" / f"positions-{name}.svg": picture(
            curves(drawn, title=heading, x_title=x_title), heading, list(drawn)
        )
        for name, heading, drawn in (("all", title, lines), ("holding", near, held))
    }
