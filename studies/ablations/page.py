"""The tables and pictures of docs/ablations.md, from the numbers in results.json."""

import json
from pathlib import Path

from regard.plots.charts import bars, curves
from studies.pictures import picture

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
SCORES = ("BLEU", "chrF2")
START = {
    "largest logit": "largest logit",
    "largest weight": "largest weight",
    "gradient of the first layer": "gradient, first layer",
    "gradient of the last layer": "gradient, last layer",
    "reversed": "source reversed",
    "last word": "last word changed",
}
"""What is known of an untrained model, and what its column is called."""


def results() -> dict[str, dict]:
    return json.loads(RESULTS.read_text())


def scores_table() -> str:
    found = results()
    lines = [
        f"| variant | parameters | best validation loss | {' | '.join(SCORES)} |",
        "|---|---:|---:|" + "---:|" * len(SCORES),
    ]
    for name, one in found.items():
        best = min((loss for _, loss in one["losses"]), default=None)
        scores = [_fixed(one["scores"].get(score), 1) for score in SCORES]
        count = f"{one['start']['parameters']:,.0f}" if one["start"] else "none"
        lines.append(f"| {name} | {count} | {_fixed(best, 3)} | {' | '.join(scores)} |")
    stopped = {name: one["stopped"] for name, one in found.items() if one["stopped"]}
    lines += [f'\n*{name}* stopped: "{why}"' for name, why in stopped.items()]
    return "\n".join(lines)


def start_table() -> str:
    lines = ["| variant | " + " | ".join(START.values()) + " |", "|---|" + "---:|" * len(START)]
    for name, one in results().items():
        cells = [_short(one["start"].get(key)) for key in START]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    found = results()
    losses = {name: one["losses"] for name, one in found.items() if one["losses"]}
    answered = {name: one["scores"] for name, one in found.items() if one["scores"]}
    heights = {score: [one[score] for one in answered.values()] for score in SCORES}
    title = "Validation loss by update, nats per target token"
    said = "Scores of the answers to test_2016_flickr"
    return {
        DOCS / "img" / "ablations-loss.svg": picture(
            curves(losses, title=title), title, list(losses)
        ),
        DOCS / "img" / "ablations-scores.svg": picture(
            bars(list(answered), heights, title=said, x_title="variant"), said, SCORES
        ),
    }


def _fixed(value: float | None, digits: int) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def _short(value: float | None) -> str:
    return "no number" if value is None else f"{value:.2g}"


def tables() -> dict[str, str]:
    """What stands between the marks of docs/ablations.md."""
    return {"scores": scores_table(), "start": start_table()}
