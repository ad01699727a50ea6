"""regard train: a recipe becomes a run directory."""

import json
import os
import time
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import final

import typer
from rich.console import Console
from rich.progress import BarColumn, TimeRemainingColumn

from regard.cli.options import Device, RecipeFile
from regard.cli.progress import progress_line
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import read_recipe
from regard.training.events import Event, Finished, Notice, Step, Validated, finite
from regard.training.run import run
from regard.training.workers import joined, local_device

BAR_SECONDS = 0.2
"""Between two updates that the bar shows; it waits for each."""
SPEED_SECONDS = 5.0
"""Of updates, over which the speed on the bar is a mean."""
STOPPED = 130
"""The exit code of a training that was asked to stop: shells give Ctrl-C the same code."""


def train(
    recipe: RecipeFile,
    out: Path = typer.Option(..., help="The run directory to make; never overwritten."),
    change: list[str] = typer.Option([], "--set", help="Change a key: training.steps=200."),
    resume: bool = typer.Option(False, "--resume", help="Go on with --out, which is there."),
    device: Device = None,
    precision: str | None = typer.Option(None, help="float32 or bfloat16; bfloat16 on cuda."),
    compiles: bool | None = typer.Option(
        None, "--compile/--no-compile", help="Compile the layers first; done on cuda."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Updates, validations and the end as JSON lines."
    ),
) -> None:
    """Train a model by a recipe.

    Ctrl-C saves a checkpoint and stops, with exit code 130; --resume goes on to the same weights,
    to the bit. It begins in a folder without a checkpoint, and refuses one that is not there. On
    several devices: torchrun --nproc-per-node 2 -m regard train RECIPE --out RUN

    Example: regard train recipes/copy.toml --out runs/copy
    """
    plan = read_recipe(recipe, change)
    hardware = Hardware.chosen(local_device(device), precision, compiles=compiles)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    display = TrainingDisplay(console, plan.training.steps)
    is_stopped = False
    with joined(hardware.device) as workers, closing(display):
        for event in run(plan, out, resume=resume, hardware=hardware, workers=workers):
            if as_json:
                _print_json(event, console)
            else:
                display.show(event)
            is_stopped = isinstance(event, Finished) and not event.is_complete
    if not workers.is_first:
        # gloo's threads may still hold a tensor of the last exchange, and Python, taken apart while
        # they let go of it, would abort; this process has printed nothing and has nothing to end
        os._exit(0)
    if is_stopped:
        # so that a script does not mistake a stopped training for a finished one
        raise typer.Exit(STOPPED)


def _print_json(event: Event, console: Console) -> None:
    """Print numbers as one JSON object per line on standard output; notices go to the console."""
    if isinstance(event, Notice):
        console.print(event.text, markup=False)
    else:
        kind = {Step: "step", Validated: "validation", Finished: "end"}[type(event)]
        print(json.dumps({"event": kind, **finite(event.record())}), flush=True)


@final
class TrainingDisplay:
    """Prints sentences, and shows a progress bar if there is a terminal."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console, self.speed, self.last = console, Speed(), 0.0
        step, numbers = "step {task.completed:.0f}/{task.total:.0f}", "{task.fields[numbers]}"
        self.bar = progress_line(console, step, BarColumn(), numbers, TimeRemainingColumn())
        self.task = self.bar.add_task("", total=steps, numbers="")

    def show(self, event: Event) -> None:
        """Move the bar, or print a sentence above it."""
        if isinstance(event, Step):
            self.bar.start()
            source, target = self.speed.with_step(event)
            if time.monotonic() - self.last >= BAR_SECONDS and self.console.is_terminal:
                self.last = time.monotonic()
                numbers = (
                    f"loss {event.nll:.3f}  rate {event.learning_rate:.1e}  "
                    f"{source:,.0f} + {target:,.0f} tokens/s"
                )
                self.bar.update(self.task, completed=event.progress.step, numbers=numbers)
        elif isinstance(event, Finished):
            self.bar.stop()
            step, path = event.progress.step, event.path
            if event.is_complete:
                print(
                    f"finished at step {step}: {path} (curves in report.html, the rest in card.md)"
                )
            else:
                print(
                    f"stopped at step {step}; go on with --resume: {path} (the same command, with "
                    "--resume behind it)"
                )
        else:
            text = _validation_text(event) if isinstance(event, Validated) else event.text
            self.console.print(text, markup=False)

    def close(self) -> None:
        """Take the bar away."""
        self.bar.stop()


@final
class Speed:
    """Source and target tokens a second, without padding, over the last few seconds."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()

    def with_step(self, step: Step) -> tuple[float, float]:
        """Both speeds, now that this update was made too."""
        self.steps.append(step)
        seconds = sum(each.seconds for each in self.steps)
        while len(self.steps) > 1 and seconds - self.steps[0].seconds >= SPEED_SECONDS:
            seconds -= self.steps.popleft().seconds
        source = sum(each.source_tokens for each in self.steps)
        return source / seconds, sum(each.target_tokens for each in self.steps) / seconds


def _validation_text(event: Validated) -> str:
    bleu = "" if event.bleu is None else f", BLEU {event.bleu:.2f}"
    best = ", the best so far" if event.is_best else ""
    return f"step {event.step}: validation loss {event.loss:.4f}{event.matched()}{bleu}{best}"
