"""The tables and pictures of docs/comparisons.md, from the numbers in results.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from regard.plots.charts import curves
from studies.pictures import picture
from studies.tables import table

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
WEIGHTS = ("kappa", "alpha")
"""How much a branch counts: what its head says, and what its feed-forward makes of it."""


def results() -> dict:
    return json.loads(RESULTS.read_text())


def tables() -> dict[str, str]:
    """What stands between each pair of marks."""
    found = results()
    branches, trees = found["branches"], found["trees"]
    return {
        "branches": scores_table(branches["arms"], ("BLEU", "chrF2")),
        "updates": updates_table(branches["updates_to"]),
        "weights": weights_table(branches["arms"]),
        "trees": scores_table(trees["arms"], ("token accuracy",)),
    }


def scores_table(arms: Mapping, scores: Sequence[str]) -> str:
    """Every seed's first score, then mean and spread of all."""
    rows = []
    for arm, seeds in arms.items():
        runs = list(seeds.values())
        rows.append(
            [
                arm,
                f"{runs[0]['parameters']:,}",
                *(f"{run['scores'][scores[0]]:.2f}" for run in runs),
                *(spread([run["scores"][score] for run in runs], 2) for score in scores),
                spread([lowest(run) for run in runs], 3),
            ]
        )
    numbers = [f"seed {seed}" for seed in next(iter(arms.values()))]
    return table(["", "parameters", *numbers, *scores, "lowest loss"], rows)


def spread(values: Sequence[float], digits: int) -> str:
    """Mean and standard deviation; of one value alone, that."""
    return f"{mean(values):.{digits}f}" + (
        f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    )


def lowest(run: Mapping) -> float:
    """The lowest validation loss."""
    return min(loss for _, loss in run["losses"])


def updates_table(updates: Mapping) -> str:
    """Updates until round losses, mean and spread."""
    arms = next(iter(updates.values()))
    rows = [[arm, *(spread(by_arm[arm], 0) for by_arm in updates.values())] for arm in arms]
    return table(["updates until a loss of", *updates], rows)


def weights_table(arms: Mapping) -> str:
    """What the branches of each layer count in the end, from the least to the most of all seeds."""
    runs = [run["branches"] for seeds in arms.values() for run in seeds.values() if run["branches"]]
    rows = [
        [_layer(name), *(_from_to([n for run in runs for n in run[name][key]]) for key in WEIGHTS)]
        for name in runs[0]
    ]
    return table(["", *WEIGHTS], rows)


def _layer(name: str) -> str:
    stack, number = name.split(".")
    return f"{stack}, layer {int(number) + 1}"


def _from_to(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    arms = results()["branches"]["arms"]
    lines = {
        arm: [
            (each[0][0], mean(loss for _, loss in each))
            for each in zip(*(run["losses"] for run in seeds.values()), strict=True)
        ]
        for arm, seeds in arms.items()
    }
    title = "Validation loss by update, mean of the seeds, nats per target token"
    return {
        DOCS / "img" / "comparisons-loss.svg": picture(
            curves(lines, title=title), title, list(lines)
        )
    }
