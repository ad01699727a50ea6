"""Report: writes report.html, one file with a run's curves and numbers, which needs no network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from regard.data.atomic_writes import write_text
from regard.plots.charts import curves
from regard.plots.page import page
from regard.training.events import PRINTED
from regard.training.metrics_file import rows as read_metrics
from regard.training.metrics_file import sample_rows


def write_report(run: Path) -> Path:
    """Write a page with the curves of `metrics.jsonl` and the recipe."""
    parts = [*training_parts(run), *samples_parts(run), recipe_part(run)]
    write_text(run / "report.html", page(run.name, parts, style=SAMPLE_STYLE))
    return run / "report.html"


def training_parts(run: Path) -> list[str]:
    """How a run learned, for a page: a table of facts, then its curves."""
    rows = read_metrics(run / "metrics.jsonl")
    learned = [row for row in rows if "train_loss" in row]
    # a page shows no more than about 500 points of a line
    drawn = learned[:: max(1, len(learned) // 500)]
    checked = [row for row in rows if "valid_loss" in row]
    signatures = [row["bleu_signature"] for row in checked if "bleu" in row]
    decoded = {
        "Exact match, greedy": {"exact match": _line(checked, "exact_match")},
        "Accuracy of labels": {"accuracy": _line(checked, "accuracy")},
        "ROUGE-L, greedy": {"ROUGE-L": _line(checked, "rouge_l")},
        f"BLEU, greedy ({''.join(signatures[-1:])})": {"BLEU": _line(checked, "bleu")},
    }
    return [
        _table(learned, checked),
        curves(
            {"training": _line(drawn, "train_loss"), "validation": _line(checked, "valid_loss")},
            title="Loss, nats per target token",
        ),
        *(curves(lines, title=title) for title, lines in decoded.items() if any(lines.values())),
        curves({"rate": _line(drawn, "learning_rate")}, title="Learning rate"),
    ]


SAMPLE_STYLE = (
    ".sample{max-width:44rem;margin:1.5rem 0}.sample p{margin:.25rem 0;overflow-wrap:anywhere}"
    ".sample .wide{margin:.5rem 0;max-height:20rem;overflow:auto}"
    ".sample td{white-space:normal;overflow-wrap:anywhere}"
    ".links{display:flex;flex-wrap:wrap;gap:.4rem;padding:0;list-style:none}"
    ".links li{border:1px solid var(--grid);border-radius:4px;padding:.1rem .5rem}"
    ".links i{display:block;height:3px;background:currentColor;opacity:.6}"
)
"""A sample's answers, and a box for each of its words whose bar is as long as the weight."""


def samples_parts(run: Path) -> list[str]:
    """What a few examples were answered at each validation, for a page; none without samples."""
    rows = sample_rows(run)
    numbers = sorted({row["example"] for row in rows if type(row.get("example")) is int})
    if not numbers:
        return []
    intro = (
        "<h2>Sample answers</h2>\n<p>The same validation examples at every validation. Below each "
        "stands what the words of its last answer looked at, the strongest links, as a mean over "
        "all layers and heads.</p>"
    )
    return [intro, *(_sample([row for row in rows if row["example"] == n]) for n in numbers)]


def _sample(rows: Sequence[dict[str, Any]]) -> str:
    """One example, its answers, and the links of the last of them."""
    last = rows[-1]
    source, reference = (escape(str(last.get(key, ""))) for key in ("source", "reference"))
    answers = "".join(
        f'<tr><th scope="row">{row["step"]:,}</th>'
        f"<td>{escape(str(row.get('answer', '')))}</td></tr>"
        for row in reversed(rows)
    )
    links = "".join(map(_link, last.get("looked") or ()))
    return (
        f'<section class="sample"><h3>{source}</h3><p>Wanted: {reference}</p>'
        '<div class="wide" tabindex="0"><table><thead><tr><th scope="col">update</th>'
        f'<th scope="col">answer</th></tr></thead><tbody>{answers}</tbody></table></div>'
        f'<ul class="links">{links}</ul></section>'
    )


def _link(looked: dict[str, Any]) -> str:
    """A word and what it looked at; its bar is as long as the strongest weight."""
    at = looked.get("at") or ()
    names = ", ".join(f"{escape(str(one['word']))} {one['weight']:.2f}" for one in at)
    bar = 100 * max((one["weight"] for one in at), default=0)
    return f'<li>{escape(str(looked["word"]))} ← {names}<i style="width:{bar:.0f}%"></i></li>'


def recipe_part(run: Path) -> str:
    """The resolved recipe, for a page."""
    text = (run / "recipe.toml").read_text(encoding="utf-8")
    return f"<h2>Recipe</h2>\n<pre>{escape(text)}</pre>"


def _table(learned: Sequence[dict[str, Any]], checked: Sequence[dict[str, Any]]) -> str:
    facts: dict[str, str] = {}
    # a row that was written by hand may lack some numbers
    needed = {"target_tokens", "target_tokens_per_second"}
    if counted := [row for row in learned if needed <= row.keys()]:
        speed = sorted(row["target_tokens_per_second"] for row in counted)[len(counted) // 2]
        facts["updates"] = f"{counted[-1]['step']:,}"
        facts["target tokens seen"] = f"{counted[-1]['target_tokens']:,}"
        facts["target tokens a second (median)"] = f"{speed:,.0f}"
    if measured := [row for row in checked if row["valid_loss"] is not None]:
        best = min(measured, key=lambda row: row["valid_loss"])
        facts["best validation loss"] = f"{best['valid_loss']:.4f} at update {best['step']:,}"
    last = checked[-1] if checked else {}
    for key, (name, digits) in PRINTED.items():
        if key in last:
            facts[f"last {name}"] = f"{last[key]:.{digits}f}"
    cells = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    return f"<table>{cells}</table>"


def _line(rows: Sequence[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    # a loss that was not finite is null in the file
    return [(float(row["step"]), float(row[key])) for row in rows if row.get(key) is not None]
