"""The training view: curves, progress and sample answers of a run, also while it is being trained.

Everything is read from the run's folder, which another process writes: `metrics.jsonl` grows by
whole lines, and so does `samples.jsonl`, of which a line that is half written is left out.
"""

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from regard.errors import RegardError
from regard.recipes.recipe import read_recipe
from regard.training.metrics_file import rows as read_metrics

MAX_CURVE_POINTS = 600
CHARTS: Mapping[str, Mapping[str, str]] = {
    "Loss, nats per target token": {"training": "train_loss", "validation": "valid_loss"},
    "Exact match, greedy": {"validation": "exact_match"},
    "Accuracy of labels": {"validation": "accuracy"},
    "ROUGE-L, greedy": {"validation": "rouge_l"},
    "BLEU, greedy": {"validation": "bleu"},
    "Learning rate": {"rate": "learning_rate"},
    "Gradient norm": {"norm": "gradient_norm"},
}
"""The lines of each training chart, and their keys in `metrics.jsonl`."""
SCORES: Mapping[str, str] = {
    "train_loss": "training loss",
    "valid_loss": "validation loss",
    "exact_match": "exact match",
    "accuracy": "accuracy",
    "rouge_l": "ROUGE-L",
    "bleu": "BLEU",
}
"""The newest numbers that are shown, and their names."""
RECENT_UPDATES = 50
"""Updates over which the speed is a median."""
QUIET_SECONDS = 120
"""From so long without a new line on, a training is quiet: it validates, or was stopped."""
MAX_SAMPLE_BYTES = 1 << 20
"""How much of the end of `samples.jsonl` is read."""
MAX_SAMPLE_STEPS = 60
SAMPLE_TEXTS = ("source", "reference", "answer")


def training_view(home: Path) -> dict[str, object]:
    """Curves, progress and samples of the run in a folder."""
    path = home / "metrics.jsonl"
    stat = path.stat() if path.is_file() else None
    marks = (stat.st_mtime_ns, stat.st_size) if stat else (0, 0)
    seen = _curves(path, marks)
    return {**seen, **_progress(home, seen, marks[0] / 1e9), "samples": samples(home)}


@lru_cache(maxsize=8)
def _curves(path: Path, marks: tuple[int, int]) -> dict[str, Any]:
    """The curves of a metrics file of this time and size; long trainings are thinned."""
    rows = read_metrics(path)
    learned = [row for row in rows if "train_loss" in row]
    every = max(1, -(-len(learned) // MAX_CURVE_POINTS))
    thinned = learned[::every]
    # the newest point is always drawn
    newest = learned[-1:] if learned and (len(learned) - 1) % every else []
    drawn = [*thinned, *newest, *(row for row in rows if "valid_loss" in row)]
    # values that were NaN or infinite are null in the file
    drawn = [{key: value for key, value in row.items() if value is not None} for row in drawn]
    charts = []
    for title, keys in CHARTS.items():
        series = {
            name: [[float(row["step"]), float(row[key])] for row in drawn if key in row]
            for name, key in keys.items()
        }
        lines = {name: line for name, line in series.items() if line}
        charts.append({"title": title, "series": lines})
    scores = {
        name: next((row[key] for row in reversed(rows) if row.get(key) is not None), None)
        for key, name in SCORES.items()
    }
    seconds = [row["seconds"] for row in learned[-RECENT_UPDATES:] if row.get("seconds")]
    return {
        "updates": len(learned),
        "every": every,
        "charts": charts,
        "step": rows[-1]["step"] if rows else 0,
        "scores": {name: value for name, value in scores.items() if value is not None},
        "seconds_per_update": median(seconds) if seconds else None,
    }


def _progress(home: Path, seen: Mapping[str, Any], written: float) -> dict[str, object]:
    """How far the training is: "finished", "running" or "quiet", and the time that is left."""
    steps, speed = _steps(home), seen["seconds_per_update"]
    quiet = max(time.time() - written, 0.0) if written else None
    is_finished = (home / "model.safetensors").is_file()
    # a run that has written nothing yet prepares its data
    is_quiet = quiet is not None and quiet > max(QUIET_SECONDS, 20 * (speed or 0))
    state = "finished" if is_finished else "quiet" if is_quiet else "running"
    left = None
    if state == "running" and steps is not None and speed is not None:
        left = max(steps - seen["step"], 0) * speed
    return {"state": state, "steps": steps, "seconds_left": left, "quiet_seconds": quiet}


def _steps(home: Path) -> int | None:
    """The updates that the recipe asks for; None while there is no recipe that can be read."""
    try:
        return read_recipe(home / "recipe.toml").training.steps
    except (RegardError, OSError):
        return None


def samples(home: Path) -> list[dict[str, object]]:
    """Answers to a few validation texts, oldest validation first; lines that are none are left out.

    Of a long file the last ones are read.
    """
    path = home / "samples.jsonl"
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - MAX_SAMPLE_BYTES, 0))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    found = [row for line in lines if (row := _sample(line)) is not None]
    newest = sorted({row["step"] for row in found})[-MAX_SAMPLE_STEPS:]
    return [row for row in found if row["step"] in newest]


def _sample(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    texts = {name: row.get(name) for name in SAMPLE_TEXTS}
    if not isinstance(texts["answer"], str):
        return None
    texts = {name: text if isinstance(text, str) else "" for name, text in texts.items()}
    return {"step": row["step"], **texts, "links": row.get("links")}
