"""regard new: a recipe for a user's own files, sized to them and to the machine."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from regard.choices import Choice, find
from regard.cli.options import Device, ManyPaths, refuse, two_names
from regard.cli.plan import plan_text
from regard.data.atomic_writes import write_text
from regard.data.doctor import Diagnosis, diagnose
from regard.data.examples import FileReader
from regard.data.recognised import RecognisedData, recognise
from regard.errors import DataError, RegardError, SettingError, counted
from regard.hardware.hardware import Hardware
from regard.progress import waiting
from regard.recipes.new_recipe import TASKS, SplitData, new_recipe
from regard.recipes.recipe import read_recipe
from regard.recipes.shipped import shipped_recipe
from regard.runs.plan import TrainingPlan
from regard.runs.plan import plan as planned
from regard.tasks import check_task

MIN_HELD_OUT_FROM = 10
"""Of fewer examples none can be held out for validation."""

new = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@new.command("new", cls=ManyPaths)
def _new(
    data: list[Path] | None = typer.Argument(
        None,
        help="SOURCE TARGET, one .tsv, .jsonl, .conllu or text, a folder of these, or PICTURES "
        "CAPTIONS.",
    ),
    out: Path = typer.Option(Path("recipe.toml"), help="The recipe to write; never overwritten."),
    copied: str | None = typer.Option(
        None, "--from", help="Copy a shipped recipe instead of making one; see regard recipe."
    ),
    task: str | None = typer.Option(
        None, help=f"What the data are for, if not what they look like: {', '.join(TASKS)}."
    ),
    valid: list[Path] | None = typer.Option(
        None, help="Validation data in the same form; a share of DATA unless given."
    ),
    test: list[Path] | None = typer.Option(None, help="Test data in the same form."),
    keys: str | None = typer.Option(None, help="Keys of .jsonl files: source,target."),
    suffixes: str | None = typer.Option(None, help="Pairs of files in a folder, such as en,de."),
    device: Device = None,
    has_plan: bool = typer.Option(True, "--plan/--no-plan", help="Plan the training by it too."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write a recipe for your own files: what they are for, how large a model, how long a training.

    Looks at the files, tells what is wrong with them, and plans the training.

    Example: regard new train.en train.de --valid val.en val.de --out mine.toml
    """
    if os.path.lexists(out):
        raise SettingError(f"new: '{out}' is there already. Give another --out, or take it away.")
    if not out.absolute().parent.is_dir():
        raise SettingError(f"new: there is no folder '{out.parent}' for '{out.name}'. Make it.")
    if copied is not None:
        given = {"DATA": data, "--task": task, "--valid": valid, "--test": test}
        refuse("new", "--from copies a recipe as it is", {**given, "--keys": keys})
        path = shipped_recipe(copied.removesuffix(".toml"))
        write_text(out, path.read_text(encoding="utf-8"))
        said = {"recipe": str(out), "from": path.stem}
        print(json.dumps(said) if as_json else f"{out}: the recipe '{path.stem}'")
        return
    if not data:
        raise SettingError(
            "new: expected files of yours, got none. Give SOURCE TARGET, a .tsv, .jsonl, .conllu "
            "or text file, or PICTURES CAPTIONS; or --from with the name of a shipped recipe."
        )
    if task is not None:
        find(task, TASKS, key="--task")
    names = {
        "keys": None if keys is None else two_names("new", "--keys", keys),
        "suffixes": None if suffixes is None else two_names("new", "--suffixes", suffixes),
    }
    with waiting("reading") as say:
        found = recognise(data, task=task, **names)
        if not valid and found.examples < MIN_HELD_OUT_FROM:
            raise DataError(
                f"new: {', '.join(f'{str(path)!r}' for path in data)} holds "
                f"{counted(found.examples, 'example')}{_rows(found)}, too few to hold some out for "
                f"validation. Bring {MIN_HELD_OUT_FROM} or more, or give others by --valid."
            )
        splits = SplitData(*(_choice(paths, found, names) for paths in (valid, test)))
        say("looking for what is wrong")
        health = diagnose(found.reader) if isinstance(found.reader, FileReader) else None
    hardware = Hardware.chosen(device, None)
    write_text(out, new_recipe(found, splits, has_gpu=hardware.device.type != "cpu", name=str(out)))
    try:
        plan = _plan(out, hardware) if has_plan else None
    except RegardError:
        # a recipe that no training can begin with is not left behind
        out.unlink()
        raise
    if as_json:
        print(json.dumps(_record(out, found, health, plan), ensure_ascii=False))
    else:
        print(_text(out, found, health, plan))


def _choice(paths: Sequence[Path] | None, train: RecognisedData, names: Any) -> Choice | None:
    """The reader of a split's files, which must be of the form of the training data."""
    if not paths:
        return None
    choice = recognise(paths, **names).choice
    if choice.name != train.choice.name:
        raise SettingError(
            f"new: '{paths[0]}' is read as '{choice.name}', but the training data as "
            f"'{train.choice.name}'. Give both in one form."
        )
    return choice


def _rows(found: RecognisedData) -> str:
    """What an example of a running text is."""
    words = getattr(found.reader, "words", None)
    return "" if words is None else f" (rows of {words} words)"


def _plan(recipe: Path, hardware: Hardware) -> TrainingPlan:
    checked = read_recipe(recipe, check=check_task)
    with waiting("planning") as say:
        for found in planned(checked, hardware=hardware, out=Path()):
            if not isinstance(found, TrainingPlan):
                say(found)
    assert isinstance(found, TrainingPlan)
    return found


def _record(
    out: Path, found: RecognisedData, health: Diagnosis | None, plan: TrainingPlan | None
) -> dict[str, object]:
    findings = [] if health is None else health.findings
    return {
        "recipe": str(out),
        "task": found.task,
        "reason": found.reason,
        "reader": {"name": found.choice.name, **found.choice.settings},
        "examples": found.examples,
        "findings": [
            {"check": one.check, "message": one.message, "count": one.count} for one in findings
        ],
        "plan": None if plan is None else asdict(plan),
    }


def _text(
    out: Path, found: RecognisedData, health: Diagnosis | None, plan: TrainingPlan | None
) -> str:
    lines = [f"{counted(found.examples, 'example')}, {found.reason}: {found.task}"]
    findings = [] if health is None else health.findings
    lines += [f"  {one.check}: {one.message} ({one.count:,} in all)" for one in findings]
    if findings:
        lines.append("  regard doctor, with the same files, names the lines.")
    lines += ["", plan_text(plan), ""] if plan is not None else []
    lines.append(f"{out} is written. Read it, then: regard train {out} --out runs/mine")
    return "\n".join(lines)
