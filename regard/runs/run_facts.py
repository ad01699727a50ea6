"""Run facts: what a run is, from its own files, without loading its model.

`regard runs` lists many, `regard show` tells one's story.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, final

from regard.data import READERS, Example
from regard.errors import RegardError, RunError
from regard.recipes.data_paths import data_files, examples_of
from regard.recipes.part_files import check_parts
from regard.recipes.recipe import Recipe, read_recipe
from regard.tasks import task_of
from regard.training.card_json import MODEL, Quoted, read_quoted
from regard.training.checkpoints import Progress, checkpoints, read_progress, tensor_forms
from regard.training.kept_examples import kept_examples
from regard.training.metrics_file import rows as read_metrics

MAX_DEPTH = 4
"""How many folders below the given one are searched for runs."""
SCORES = {"loss": "valid_loss", "exact_match": "exact_match", "bleu": "bleu"}
"""The scores of a validation, and their names in metrics.jsonl."""


@final
@dataclass(frozen=True)
class RunFacts:
    """What the files of a run say; what they do not say is None."""

    path: Path
    bytes: int
    """Of all its files."""
    changed: float
    """When its weights, or its last numbers, were written: seconds since 1970."""
    is_finished: bool
    recipe: Recipe | None = field(default=None, repr=False)
    problem: str | None = None
    """Why it cannot be read."""
    parameters: int | None = None
    progress: Progress | None = None
    """That of its newest checkpoint."""
    scores: dict[str, float] = field(default_factory=dict)
    """Those of its card, or of its last validation."""
    quoted: Quoted | None = field(default=None, repr=False)
    """What its card quotes."""

    @property
    def task(self) -> str | None:
        """The name of what it is for."""
        return None if self.recipe is None else self.recipe.model.task

    @property
    def state(self) -> str:
        """How far it is, in words."""
        if self.recipe is None:
            return "cannot be read"
        step = 0 if self.progress is None else self.progress.step
        if self.is_finished and step < self.recipe.training.steps and step:
            return f"finished at {step:,} of {self.recipe.training.steps:,} updates"
        return "finished" if self.is_finished else f"{step:,} of {self.recipe.training.steps:,}"

    def as_json(self) -> dict[str, Any]:
        """The facts as plain data."""
        return {
            "path": str(self.path),
            "task": self.task,
            "kind": None if self.recipe is None else self.recipe.model.kind,
            "is_finished": self.is_finished,
            "step": None if self.progress is None else self.progress.step,
            "steps": None if self.recipe is None else self.recipe.training.steps,
            "parameters": self.parameters,
            "scores": self.scores,
            "bytes": self.bytes,
            "changed": self.changed,
            "problem": self.problem,
        }


def facts_of(run: Path) -> RunFacts:
    """The facts of one run; a file that cannot be read is a problem of it, and no error."""
    sizes = [each.lstat().st_size for each in run.rglob("*") if each.is_file()]
    times = [_changed(run / name) for name in (MODEL, "metrics.jsonl", "recipe.toml")]
    changed = next((time for time in times if time is not None), 0.0)
    known = (run, sum(sizes), changed, (run / MODEL).exists())
    try:
        check_parts(run)
        recipe = read_recipe(run / "recipe.toml")
        found = checkpoints(run / "checkpoints")
        weights = run / MODEL if known[-1] else found[-1] / MODEL if found else None
        forms = {} if weights is None else tensor_forms(weights)
        quoted = _quoted(run)
        return RunFacts(
            *known,
            recipe,
            parameters=sum(math.prod(shape) for _, shape in forms.values()) or None,
            progress=read_progress(found[-1]) if found else None,
            scores=_scores(run, quoted),
            quoted=quoted,
        )
    except RegardError as error:
        return RunFacts(*known, problem=str(error))


def runs_in(folder: Path) -> list[RunFacts]:
    """The runs in a folder and below it, the newest first; the folder may be a run itself."""
    if not folder.is_dir():
        raise RunError(f"runs: there is no folder '{folder}'. Give one that holds runs.")
    return sorted(map(facts_of, _found(folder, MAX_DEPTH)), key=lambda one: -one.changed)


def data_facts(run: Path, recipe: Recipe) -> dict[str, str]:
    """Of each split, what its examples come from, and whether that is on this machine."""
    facts = {}
    for split in ("train", "valid", "test"):
        choice = getattr(recipe.data, split)
        if choice is None:
            continue
        files = data_files(choice, run)
        names = ", ".join(str(name) for name, _ in files[:3])
        gone = sum(not place.exists() for _, place in files)
        here = "" if not gone else " (not on this machine)"
        settings = ", ".join(f"{key} = {value}" for key, value in choice.settings.items())
        made = f"{'read' if choice.name in READERS else 'made'} by {choice.name} ({settings})"
        facts[split] = f"{names}{here}" if files else made
    return facts


def has_split(run: Path, recipe: Recipe, split: str) -> bool:
    """Whether a split can be read on this machine."""
    choice = getattr(recipe.data, split)
    if choice is None or choice.name not in READERS:
        return choice is not None
    files = data_files(choice, run)
    return bool(files) and all(place.exists() for _, place in files)


def example_of(run: Path, recipe: Recipe) -> str | None:
    """An input to ask a run for: one that it keeps, or the first of its validation data."""
    try:
        if kept := kept_examples(run):
            has_texts = task_of(recipe).sources.has_lengths
            return kept[0] if has_texts else str(run / kept[0])
        first: list[Example] = list(islice(examples_of(recipe.data.valid, "valid", run)(), 1))
    except (RegardError, OSError):
        return None
    return first[0].source or first[0].targets[0] if first else None


def _found(folder: Path, depth: int) -> Iterator[Path]:
    """Every run in a folder; nothing is looked for inside a run or a hidden folder."""
    if (folder / "recipe.toml").is_file():
        yield folder
        return
    if depth:
        with os.scandir(folder) as inside:
            names = sorted(each.name for each in inside if each.is_dir(follow_symlinks=False))
        for name in names:
            if not name.startswith("."):
                yield from _found(folder / name, depth - 1)


def _changed(path: Path) -> float | None:
    return path.stat().st_mtime if path.exists() else None


def _quoted(run: Path) -> Quoted | None:
    try:
        return read_quoted(run)
    except RunError:
        return None


def _scores(run: Path, quoted: Quoted | None) -> dict[str, float]:
    if quoted is not None and quoted.scores is not None:
        rows: list[dict[str, Any]] = [vars(quoted.scores)]
    else:
        path = run / "metrics.jsonl"
        checked = [row for row in read_metrics(path) if row.get("valid_loss") is not None]
        rows = [{name: row.get(key) for name, key in SCORES.items()} for row in checked[-1:]]
    return {name: float(row[name]) for row in rows for name in SCORES if row.get(name) is not None}
