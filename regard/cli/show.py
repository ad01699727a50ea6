"""regard show: one run's story on a screen: what for, data, model, training, scores, use."""

import json
from pathlib import Path
from shlex import join, quote
from typing import Any

import typer

from regard.cli.options import IMPORTS
from regard.cli.plan import size_text, time_text
from regard.cli.runs import date_text, score_text
from regard.errors import RunError, counted
from regard.recipes.data_paths import run_of
from regard.recipes.recipe import Recipe
from regard.runs.run_facts import RunFacts, data_facts, example_of, facts_of, has_split
from regard.tasks import task_of
from regard.training.checkpoints import checkpoints
from regard.training.metrics_file import rows as read_metrics
from regard.training.run_folder import check_is_run


def show(
    run: Path = typer.Argument(help="A run, finished or not."),
    imports: list[Path] = IMPORTS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Tell a run's story: what it is for, its data, model, training and scores, how to use it.

    All of it is read from the run's own files; its model is not loaded.

    Example: regard show runs/copy
    """
    run = run_of(run)
    check_is_run(run, "show")
    found = facts_of(run)
    if found.recipe is None:
        raise RunError(f"show: '{run}' cannot be read: {found.problem}")
    story = {"run": str(run), **_story(run, found, found.recipe)}
    if as_json:
        print(json.dumps({**found.as_json(), "story": story}, ensure_ascii=False))
        return
    for name, text in story.items():
        first, *more = text.splitlines() or [""]
        print(f"{name:<10} {first}")
        for line in more:
            print(f"{'':<10} {line}")


def _story(run: Path, found: RunFacts, recipe: Recipe) -> dict[str, str]:
    splits = data_facts(run, recipe)
    kept = checkpoints(run / "checkpoints")
    named = f": {', '.join(each.name for each in kept[-3:])}" if kept else ""
    return {
        "what for": f"{task_of(recipe).does} ({recipe.model.task}); {found.state}, "
        f"{date_text(found)}",
        "data": "\n".join(f"{split}: {text}" for split, text in splits.items()),
        "model": _model(found, recipe),
        "training": _training(run, found, recipe),
        "scores": score_text(found.scores) or "none: no validation was made",
        "files": f"{size_text(found.bytes)}, {counted(len(kept), 'checkpoint')}{named}",
        "use": "\n".join(_uses(run, found, recipe)),
    }


def _model(found: RunFacts, recipe: Recipe) -> str:
    table = recipe.as_table()["model"]
    sizes = {key: value for key, value in table.items() if isinstance(value, int)}
    shown = [f"{key} {value}" for key, value in sizes.items() if not isinstance(value, bool)]
    links = {
        key: " ".join(map(_name, value if isinstance(value, list) else [value]))
        for key, value in table.items()
        if isinstance(value, dict | list)
    }
    count = "unknown" if found.parameters is None else f"{found.parameters:,}"
    return (
        f"{recipe.model.kind}, {count} parameters\n{', '.join(shown)}\n"
        f"{', '.join(f'{key} {name}' for key, name in links.items())}"
    ).strip()


def _name(choice: dict[str, Any] | object) -> str:
    """A choice as it is written in a shell."""
    if not isinstance(choice, dict):
        return str(choice)
    settings = ",".join(f"{key}={value}" for key, value in choice.items() if key != "name")
    return f"{choice.get('name', '')}{':' if settings else ''}{settings}"


def _training(run: Path, found: RunFacts, recipe: Recipe) -> str:
    progress, made = found.progress, found.quoted.made_with if found.quoted else {}
    if progress is None:
        return "no update is kept" if found.is_finished else "not begun"
    rows = read_metrics(run / "metrics.jsonl")
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    where = ", ".join(
        f"{name} {made[name]}".removeprefix("device ").removeprefix("precision ")
        for name in ("device", "precision", "torch", "regard")
        if name in made
    )
    return (
        f"{progress.step:,} of {recipe.training.steps:,} updates, "
        f"{counted(progress.epoch + 1, 'epoch')}, {progress.target_tokens:,} target tokens, "
        f"{time_text(seconds)}\n{where}"
    ).strip()


def _uses(run: Path, found: RunFacts, recipe: Recipe) -> list[str]:
    place = quote(str(run))
    if not found.is_finished:
        return [f"regard train {place}/recipe.toml --out {place} --resume"]
    example = example_of(run, recipe)
    words = task_of(recipe).request_words("…" if example is None else example[:80])
    split = next((name for name in ("test", "valid") if has_split(run, recipe, name)), None)
    scored = f"--split {split}" if split else "--source FILE --reference FILE"
    return [
        join(["regard", "predict", str(run), *words]),
        join(["regard", "look", str(run), words[-1]]),
        f"regard evaluate {place} {scored}",
        f"regard serve {place} --open",
        f"python: regard.load({str(run)!r})",
    ]
