"""regard runs: what runs there are, with their tasks, scores, sizes and dates."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import typer

from regard.cli.options import IMPORTS
from regard.cli.plan import size_text
from regard.runs.run_facts import RunFacts, runs_in

NAMES = {"loss": ("loss", 4), "exact_match": ("exact match", 3), "bleu": ("BLEU", 1)}
"""How scores are printed, and their digits behind the point."""


def runs(
    folder: Path = typer.Argument(Path(), help="Where to look, and below; here unless given."),
    imports: list[Path] = IMPORTS,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
) -> None:
    """List runs with their task, scores, size and date, the newest first.

    Scores are those of the validation on the run's card. A run that cannot be read is named with
    the reason. regard show RUN says more of one.

    Example: regard runs runs
    """
    found = runs_in(folder)
    if as_json:
        print(json.dumps([one.as_json() for one in found], ensure_ascii=False))
        return
    if not found:
        print(f"there is no run in '{folder}' (regard train RECIPE --out RUN makes one)")
        return
    rows = [_row(one) for one in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip())
    for one in found:
        if one.problem is not None:
            print(f"{one.path}: {one.problem}")


def _row(one: RunFacts) -> Sequence[str]:
    scores = score_text(one.scores) or "no scores"
    return str(one.path), one.task or "?", one.state, scores, size_text(one.bytes), date_text(one)


def score_text(scores: dict[str, float]) -> str:
    """Scores on one line."""
    named = ((*NAMES[key], value) for key, value in scores.items())
    return ", ".join(f"{name} {value:.{digits}f}" for name, digits, value in named)


def date_text(one: RunFacts) -> str:
    """When a run was last changed, in local time."""
    return datetime.fromtimestamp(one.changed).astimezone().strftime("%Y-%m-%d %H:%M")
