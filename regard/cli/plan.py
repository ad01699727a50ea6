"""regard plan: what a recipe will take, before its first step."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from regard.cli.options import CHANGES, IMPORTS, Device, RecipeFile, ThreadCount, TrainingPrecision
from regard.errors import counted
from regard.hardware.hardware import Hardware
from regard.hardware.memory import process_seconds
from regard.progress import waiting
from regard.recipes.recipe import read_recipe
from regard.runs.plan import Duration, TrainingPlan
from regard.runs.plan import plan as planned
from regard.tasks import check_task
from regard.training.run_folder import check_can_be_made

HELD = ("weights", "gradients", "optimiser", "average")


def plan(
    recipe: RecipeFile,
    out: Path = typer.Option(Path(), help="Where the run would be written; here unless given."),
    change: list[str] = CHANGES,
    imports: list[Path] = IMPORTS,
    device: Device = None,
    precision: TrainingPrecision = None,
    threads: ThreadCount = None,
    as_json: bool = typer.Option(False, "--json", help="Print JSON; sizes in bytes, seconds."),
) -> None:
    """Say what a recipe will take: parameters, updates, memory, time and disk.

    Measured by a few updates; nothing is written or left behind. Exit 1 if something will not fit.

    Example: regard plan copy --set training.steps=2000
    """
    start_s = process_seconds()
    if out != Path():
        check_can_be_made(out, "plan")
    wanted, hardware = (
        read_recipe(recipe, change, check=check_task),
        Hardware.chosen(device, precision, threads=threads),
    )
    with waiting("planning") as say:
        for found in planned(wanted, hardware=hardware, out=out, start_s=start_s):
            if not isinstance(found, TrainingPlan):
                say(found)
    assert isinstance(found, TrainingPlan)
    print(json.dumps(asdict(found)) if as_json else plan_text(found))
    if found.problems:
        raise typer.Exit(1)


def plan_text(found: TrainingPlan) -> str:
    """The plan for reading."""
    parameters, examples, updates = found.parameters, found.examples, found.updates
    parts = ", ".join(f"{name} {count:,}" for name, count in parameters.parts.items() if count)
    vocabularies = dict.fromkeys((examples.source_vocabulary, examples.target_vocabulary))
    memory, disk = found.memory, found.disk
    sizes = {name: getattr(memory, name) for name in HELD}
    held = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items() if size)
    peak = "does not fit" if memory.peak is None else f"{size_text(memory.peak)} at the peak"
    rows = {
        "parameters": f"{parameters.total:,} ({parts}); {parameters.embeddings:,} in embeddings",
        "vocabulary": " and ".join(f"{size:,}" for size in vocabularies),
        "examples": f"{examples.training:,} for training "
        f"({examples.left_out:,} of {examples.read:,} left out), "
        f"{examples.validation:,} for validation",
        "update": f"{updates.target_tokens:,.0f} target tokens in {updates.batches:.1f} batches; "
        f"{100 * updates.padding:.1f} % padding",
        "training": f"{updates.steps:,} updates, {updates.per_epoch:,.1f} an epoch, "
        f"{updates.epochs:,.1f} epochs",
        "memory": f"{peak} ({held}); {size_text(memory.available)} free",
        "time": _time(found.time),
        "validation": _validation(found.time),
        "beside them": _beside(found.time),
        "disk": f"{size_text(disk.total)}: {disk.checkpoints} checkpoints of "
        f"{size_text(disk.checkpoint)}, the model {size_text(disk.model)}, the corpus "
        f"{size_text(disk.corpus)}; {size_text(disk.available)} free",
    }
    lines = [f"{name:<12} {text}" for name, text in rows.items()]
    lines += [f"{'note':<12} {note}" for note in found.notes]
    lines += [f"{'too large':<12} {problem}" for problem in found.problems]
    return "\n".join(lines)


def _time(took: Duration) -> str:
    if took.per_update is None or took.total is None:
        return "unknown"
    return (
        f"{time_text(took.total)} in all ({took.per_update:.3g} s an update, over "
        f"{took.measured_updates})"
    )


def _validation(took: Duration) -> str:
    if took.per_validation is None or took.total is None:
        return f"{took.validations:,} of unknown length"
    seconds = took.validations * took.per_validation
    return (
        f"{time_text(seconds)} of it, {100 * seconds / took.total:.0f} %: "
        f"{counted(took.validations, 'validation')} of {took.per_validation:.3g} s"
        f"{f', {took.decoded_examples:,} examples decoded' if took.decoded_examples else ''}"
    )


def _beside(took: Duration) -> str:
    if took.per_checkpoint is None:
        return "unknown"
    saving = took.checkpoints * took.per_checkpoint
    return (
        f"start {time_text(took.start)}, preparing {time_text(took.preparing)}, "
        f"{counted(took.checkpoints, 'checkpoint')} {time_text(saving)}, finishing "
        f"{time_text(took.finishing)}"
    )


def size_text(size: int) -> str:
    """Bytes for reading.

    >>> size_text(3 << 20), size_text(5 << 30)
    ('3.0 MiB', '5.0 GiB')
    """
    units = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
    least, unit = next((pair for pair in units if size >= pair[0]), units[-1])
    return f"{size / least:.1f} {unit}"


def time_text(seconds: float | int) -> str:
    """Seconds for reading.

    >>> time_text(59), time_text(600), time_text(9000)
    ('59 s', '10 min', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
