"""regard train: a recipe becomes a run directory."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import typer
from rich.console import Console

from regard.cli.options import CHANGES, IMPORTS, Device, RecipeFile, ThreadCount, TrainingPrecision
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import read_recipe
from regard.tasks import check_task
from regard.training.display import TrainingDisplay
from regard.training.events import (
    ChosenThreads,
    Event,
    Finished,
    Notice,
    Step,
    Validated,
    finite,
)
from regard.training.run import run
from regard.training.run_folder import holds_anything
from regard.training.workers import joined, local_device

STOPPED = 130
"""The exit code of a training that was asked to stop: shells give Ctrl-C the same code."""
KINDS = {ChosenThreads: "threads", Step: "step", Validated: "validation", Finished: "end"}
"""The kinds of events in the lines of --json."""


def train(
    recipe: RecipeFile,
    out: Path = typer.Option(..., help="The run directory to make; never overwritten."),
    change: list[str] = CHANGES,
    resume: bool = typer.Option(False, "--resume", help="Go on with --out, which is there."),
    imports: list[Path] = IMPORTS,
    device: Device = None,
    precision: TrainingPrecision = None,
    threads: ThreadCount = None,
    compiles: bool | None = typer.Option(
        None, "--compile/--no-compile", help="Compile the layers first; done on cuda."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Threads, updates, validations and the end as JSON lines."
    ),
) -> None:
    """Train a model by a recipe.

    Ctrl-C saves a checkpoint and stops, with exit code 130; --resume goes on to the same weights,
    to the bit. It begins in a folder without a checkpoint, and refuses one that is not there. On
    several devices: torchrun --nproc-per-node 2 -m regard train RECIPE --out RUN

    Example: regard train copy --out runs/copy
    """
    plan = read_recipe(recipe, change, check=check_task)
    hardware = Hardware.chosen(local_device(device), precision, compiles=compiles, threads=threads)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    display = TrainingDisplay(console)
    is_stopped = False
    with joined(hardware.device) as workers, closing(display), _stopping(out, console):
        for event in run(plan, out, resume=resume, hardware=hardware, workers=workers):
            if as_json:
                _print_json(event, console)
            else:
                display.show(event)
                if isinstance(event, Finished):
                    print(_end_text(event))
            is_stopped = isinstance(event, Finished) and not event.is_complete
    if not workers.is_first:
        # gloo's threads may still hold a tensor of the last exchange, and Python, taken apart while
        # they let go of it, would abort; this process has printed nothing and has nothing to end
        os._exit(0)
    if is_stopped:
        # so that a script does not mistake a stopped training for a finished one
        raise typer.Exit(STOPPED)


@contextmanager
def _stopping(out: Path, console: Console) -> Iterator[None]:
    """A context that tells a stop before the first update, after which no checkpoint is written."""
    try:
        yield
    except KeyboardInterrupt:
        left = "what is there stays" if holds_anything(out) else "nothing is left of it"
        console.print(f"stopped before the first update of {out}: {left}", markup=False)
        raise


def _print_json(event: Event, console: Console) -> None:
    """Print numbers as one JSON object per line on standard output; notices go to the console."""
    if isinstance(event, Notice):
        console.print(event.text, markup=False)
    else:
        print(json.dumps({"event": KINDS[type(event)], **finite(event.record())}), flush=True)
        if isinstance(event, Validated):
            for row in event.sample_records():
                print(json.dumps({"event": "sample", **finite(row)}), flush=True)


def _end_text(event: Finished) -> str:
    step, path = event.progress.step, event.path
    if event.is_complete:
        return f"finished at step {step}: {path} (curves in report.html, the rest in card.md)"
    return (
        f"stopped at step {step}; go on with --resume: {path} (the same command, with --resume "
        "behind it)"
    )
