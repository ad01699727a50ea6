"""What docs/long.md is made of: the results of studies/long/study.py, with slopes.

    python -m studies.long.summary RESULTS.jsonl --out studies/long/results.json

A slope is that of the straight line through the logarithms of lengths and of what one row takes,
from 2,048 tokens on, where starting the work no longer takes longer than doing it: 1 is as much for
each token of a longer row, 2 is as much for each pair.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import linear_regression
from typing import Any

from studies.long.systems import SYSTEMS
from studies.luong.summary import one_of, written

Row = Mapping[str, Any]
FITTED = 2048
"""The shortest length through which a line is laid."""


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """All that is kept of these result lines; of cells that are not there, nothing."""
    found = list(rows)
    studies = {
        study: [row for row in found if row["study"] == study]
        for study in ("cost", "text", "listops")
    }
    return {
        "device": one_of(row["device"] for row in studies["cost"]),
        "precision": one_of(row["precision"] for row in studies["cost"]),
        "step_tokens": one_of(row["rows"] * row["length"] for row in studies["cost"]),
        "cost": _by_system(studies["cost"], costs),
        "budget": budget(studies["text"]),
        "text": _by_system(studies["text"], losses),
        "listops": {
            "updates": one_of(row["updates"] for row in studies["listops"]),
            "rows": one_of(row["rows"] for row in studies["listops"]),
            "guesses": one_of(row["guesses"] for row in studies["listops"]),
            "systems": _by_system(studies["listops"], values),
        },
    }


def _by_system(rows: Sequence[Row], kept: Any) -> dict[str, Any]:
    """What is kept of each system that has a row, in the order of the study."""
    own = {name: [row for row in rows if row["system"] == name] for name in SYSTEMS}
    return {name: kept(found) for name, found in own.items() if found}


def costs(rows: Sequence[Row]) -> dict[str, Any]:
    """One system's speed and memory by length, and how they grow."""
    timed = sorted(rows, key=lambda row: row["length"])
    lengths = [row["length"] for row in timed]
    seconds = [row["seconds"] / row["rows"] for row in timed]
    found = {
        "lengths": lengths,
        "tokens_per_second": [n / s for n, s in zip(lengths, seconds, strict=True)],
        "row_seconds": seconds,
        "time_slope": slope(lengths, seconds),
    }
    if any(row["peak_bytes"] is None for row in timed):
        return found
    taken = [(row["peak_bytes"] - row["held_bytes"]) / row["rows"] for row in timed]
    return {
        **found,
        "peak_bytes": [row["peak_bytes"] for row in timed],
        "row_bytes": taken,
        "memory_slope": slope(lengths, taken),
    }


def slope(lengths: Sequence[float], values: Sequence[float]) -> float | None:
    """By how many factors of ten the values grow for each of the lengths; None for one length."""
    points = [
        (math.log(n), math.log(value))
        for n, value in zip(lengths, values, strict=True)
        if n >= FITTED
    ]
    return linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None


def budget(rows: Sequence[Row]) -> dict[str, Any]:
    """What every model of the text was given."""
    return {
        key: one_of(row[key] for row in rows)
        for key in ("updates", "seed", "train_tokens", "valid_tokens", "words")
    } | {"tokens": max(row["tokens"] for row in rows)}


def losses(rows: Sequence[Row]) -> dict[str, Any]:
    """One system's losses by length of its rows."""
    taught = sorted(rows, key=lambda row: row["length"])
    return {
        "kind": one_of(row["kind"] for row in rows),
        "lengths": {str(row["length"]): _loss(row) for row in taught},
    }


def _loss(row: Row) -> dict[str, Any]:
    per_word = row["nats"] / row["words"]
    return {
        "parameters": row["parameters"],
        "loss": row["loss"],
        # hidden words are a part of all, and nothing is known of the others
        "word_perplexity": math.exp(per_word) if row["asked"] == row["valid_tokens"] else None,
        "losses": [[tokens, round(loss, 4)] for tokens, loss in row["losses"]],
        "by_place": [[end, round(loss, 4), int(count)] for end, loss, count in row["by_place"]],
    }


def values(rows: Sequence[Row]) -> dict[str, Any]:
    """How often one system says the right value of an expression."""
    row = one_of(rows)
    return {key: row[key] for key in ("kind", "parameters", "accuracies", "losses", "accuracy")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="results.jsonl of studies/long/study.py.")
    parser.add_argument("--out", type=Path, required=True, help="Where the summary goes.")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.results.read_text().splitlines()]
    given.out.write_text(written(summary(rows)))


if __name__ == "__main__":
    main()
