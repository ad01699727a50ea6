"""report.html: one file with a run's curves and numbers, which asks nothing of the network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from regard.data.atomic_writes import write_text
from regard.plots.curves import curves
from regard.plots.page import page
from regard.training.metrics_file import rows as read_metrics


def write_report(run: Path) -> Path:
    """Draw what `metrics.jsonl` says, and show the recipe beside it."""
    write_text(run / "report.html", page(run.name, [*training_parts(run), recipe_part(run)]))
    return run / "report.html"


def training_parts(run: Path) -> list[str]:
    """How a run learned, for a page: a table of facts, then its curves."""
    rows = read_metrics(run / "metrics.jsonl")
    learned = [row for row in rows if "train_loss" in row]
    checked = [row for row in rows if "valid_loss" in row]
    return [
        _table(learned, checked),
        curves(
            {"training": _line(_thinned(learned), "train_loss"),
             "validation": _line(checked, "valid_loss")},
            title="Loss, nats per target token",
        ),
        *_matches([row for row in checked if "exact_match" in row]),
        *_bleu([row for row in checked if "bleu" in row]),
        curves({"rate": _line(_thinned(learned), "learning_rate")}, title="Learning rate"),
    ]  # fmt: skip


def recipe_part(run: Path) -> str:
    """The resolved recipe, for a page."""
    text = (run / "recipe.toml").read_text(encoding="utf-8")
    return f"<h2>Recipe</h2>\n<pre>{escape(text)}</pre>"


def _matches(measured: Sequence[dict[str, Any]]) -> list[str]:
    """A picture of exact match where texts were decoded."""
    line = {"exact match": _line(measured, "exact_match")}
    return [curves(line, title="Exact match, greedy")] if measured else []


def _bleu(measured: Sequence[dict[str, Any]]) -> list[str]:
    """A picture of BLEU where it was measured."""
    title = f"BLEU, greedy ({measured[-1]['bleu_signature']})" if measured else ""
    return [curves({"BLEU": _line(measured, "bleu")}, title=title)] if measured else []


def _table(learned: Sequence[dict[str, Any]], checked: Sequence[dict[str, Any]]) -> str:
    facts: dict[str, str] = {}
    # a row that was written by hand may lack some numbers
    counted = [
        row for row in learned if {"target_tokens", "target_tokens_per_second"} <= row.keys()
    ]
    if counted:
        speed = sorted(row["target_tokens_per_second"] for row in counted)[len(counted) // 2]
        facts["updates"] = f"{counted[-1]['step']:,}"
        facts["target tokens seen"] = f"{counted[-1]['target_tokens']:,}"
        facts["target tokens a second (median)"] = f"{speed:,.0f}"
    measured = [row for row in checked if row["valid_loss"] is not None]
    if measured:
        best = min(measured, key=lambda row: row["valid_loss"])
        facts["best validation loss"] = f"{best['valid_loss']:.4f} at update {best['step']:,}"
    if checked:
        if "exact_match" in checked[-1]:
            facts["last exact match"] = f"{checked[-1]['exact_match']:.4f}"
        if "bleu" in checked[-1]:
            facts["last BLEU"] = f"{checked[-1]['bleu']:.2f}"
    cells = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    return f"<table>{cells}</table>"


def _line(rows: Sequence[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    # a loss that was no number stands there as null
    return [(float(row["step"]), float(row[key])) for row in rows if row.get(key) is not None]


def _thinned(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """At most about 500 rows: a page shows no more."""
    return rows[:: max(1, len(rows) // 500)]
