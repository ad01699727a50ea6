"""What docs/comparisons.md is made of: the results of studies/comparisons/study.py drawn together.

    python -m studies.comparisons.summary RESULTS.jsonl... --out studies/comparisons/results.json

Of every arm and seed it keeps scores and losses; of every pair after how many updates each run came
to the same validation losses, and by how much the arms differ from the first one, beside how much
the seeds of one arm do.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from studies.comparisons.study import PAIRS
from studies.side_by_side import rows_of

Row = Mapping[str, Any]
Arms = Mapping[str, Mapping[str, Row]]
"""Runs by arm and seed."""
KEPT = (
    "losses", "updates", "target_tokens", "scores", "signatures", "parameters", "branches",
    "test_texts", "device", "torch",
)  # fmt: skip
ABOVE = (0.7, 0.3, 0.1, 0.0)
"""By how many nats the losses whose updates are counted lie above the lowest that all reach."""


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """All pairs of which there are results, in the order of the tables."""
    found = {}
    for name, pair in PAIRS.items():
        arms = {
            arm: {
                str(row["seed"]): {key: row[key] for key in KEPT}
                for row in sorted(rows, key=lambda row: row["seed"])
                if (row["pair"], row["arm"]) == (name, arm)
            }
            for arm in pair.arms
        }
        if all(arms.values()):
            found[name] = {
                "arms": arms,
                "updates_to": updates_table(arms),
                "differences": differences(arms),
            }
    return found


def lowest(run: Row) -> float:
    """The lowest validation loss."""
    return float(min(loss for _, loss in run["losses"]))


def updates_table(arms: Arms) -> dict[str, dict[str, list[float]]]:
    """By a loss that every run reaches, and by arm: the updates that each seed took."""
    last = max(lowest(run) for seeds in arms.values() for run in seeds.values())
    # to a round number above it
    least = math.ceil(last * 20) / 20
    return {
        f"{loss:.2f}": {
            arm: [updates_to(run["losses"], loss) for run in seeds.values()]
            for arm, seeds in arms.items()
        }
        for loss in (least + above for above in ABOVE)
    }


def updates_to(losses: Sequence[tuple[int, float]], wanted: float) -> float:
    """After how many updates a loss was reached, on a straight line between two validations."""
    before = losses[0]
    for now in losses:
        if now[1] <= wanted:
            share = (before[1] - wanted) / (before[1] - now[1]) if before[1] > wanted else 0.0
            return before[0] + share * (now[0] - before[0])
        before = now
    return math.inf


def differences(arms: Arms) -> dict[str, dict[str, dict[str, float]]]:
    """By arm and score: how far its mean lies above the first arm's, and both arms' ranges."""
    first, *others = arms
    return {
        other: {
            score: {
                "difference": mean(_scores(arms[other], score)) - mean(_scores(arms[first], score)),
                "range": _range(_scores(arms[other], score)),
                "range_of_first": _range(_scores(arms[first], score)),
            }
            for score in next(iter(arms[first].values()))["scores"]
        }
        for other in others
    }


def _scores(seeds: Mapping[str, Row], score: str) -> list[float]:
    return [run["scores"][score] for run in seeds.values()]


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = [row for path in given.results for row in rows_of(path)]
    given.out.write_text(json.dumps(summary(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
