"""regard train: a recipe becomes a run directory."""

import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.cli.options import Device
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import read_recipe
from regard.training.events import (
    Event,
    Finished,
    Notice,
    Validated,
    finished_record,
    finite,
    matched,
    step_record,
    validated_record,
)
from regard.training.loop import Step
from regard.training.run import run
from regard.training.workers import joined, local_device

GLANCE = 0.2
"""Seconds between two looks of the bar at an update; each look waits for it."""

CALM = 5.0
"""Over so many seconds of updates the speed on the bar is a mean."""

STOPPED = 130
"""The exit code of a training that was asked to stop: what shells say of Ctrl-C."""


def train(
    recipe: Path = typer.Argument(help="A recipe file, for instance recipes/copy.toml."),
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
    teller: Teller = AsJson(console) if as_json else ForPeople(console, plan.training.steps)
    is_stopped = False
    with joined(hardware.device) as workers:
        try:
            for event in run(plan, out, resume=resume, hardware=hardware, workers=workers):
                teller.tell(event)
                is_stopped = isinstance(event, Finished) and not event.is_complete
        finally:
            teller.close()
    if not workers.is_first:
        # gloo's threads may still hold a tensor of the last exchange, and Python, taken apart while
        # they let go of it, would abort; this process has said nothing and has nothing to end
        os._exit(0)
    if is_stopped:
        # a script that goes on after a training must not take half of one for all of it
        raise typer.Exit(STOPPED)


@runtime_checkable
class Teller(Protocol):
    """Says what happens."""

    def tell(self, event: Event) -> None:
        """Say one thing."""

    def close(self) -> None:
        """Say no more."""


@final
class AsJson:
    """One JSON object a line on standard output, and nothing else there."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def tell(self, event: Event) -> None:
        """Numbers go to standard output, words to the other."""
        if isinstance(event, Step):
            _print("step", step_record(event))
        elif isinstance(event, Validated):
            _print("validation", validated_record(event))
        elif isinstance(event, Finished):
            _print("end", finished_record(event))
        else:
            self.console.print(event.text, markup=False)

    def close(self) -> None:
        """Nothing is left."""


@final
class ForPeople:
    """Sentences, and a bar that moves where there is a terminal."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console, self.speed, self.last = console, Speed(), 0.0
        self.bar = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("", total=steps, said="")

    def tell(self, event: Event) -> None:
        """Move the bar, or say a sentence above it."""
        if isinstance(event, Step):
            self.bar.start()
            speeds = self.speed.with_step(event)
            if time.monotonic() - self.last >= GLANCE and self.console.is_terminal:
                self.last = time.monotonic()
                said = _on_the_bar(event, *speeds)
                self.bar.update(self.task, completed=event.progress.step, said=said)
        elif isinstance(event, Validated):
            self.console.print(_validation(event), markup=False)
        elif isinstance(event, Notice):
            self.console.print(event.text, markup=False)
        else:
            self.bar.stop()
            print(_ending(event))

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
        while len(self.steps) > 1 and seconds - self.steps[0].seconds >= CALM:
            seconds -= self.steps.popleft().seconds
        source = sum(each.source_tokens for each in self.steps)
        target = sum(each.target_tokens for each in self.steps)
        return source / seconds, target / seconds


def _on_the_bar(step: Step, source: float, target: float) -> str:
    return (
        f"loss {step.nll:.3f}  rate {step.learning_rate:.1e}  "
        f"{source:,.0f} + {target:,.0f} tokens/s"
    )


def _validation(event: Validated) -> str:
    bleu = "" if event.bleu is None else f", BLEU {event.bleu:.2f}"
    best = ", the best so far" if event.is_best else ""
    return f"step {event.step}: validation loss {event.loss:.4f}{matched(event)}{bleu}{best}"


def _ending(event: Finished) -> str:
    if event.is_complete:
        return (
            f"finished at step {event.progress.step}: {event.path} (curves in report.html, the "
            "rest in card.md)"
        )
    return (
        f"stopped at step {event.progress.step}; go on with --resume: {event.path} (the same "
        "command, with --resume behind it)"
    )


def _print(kind: str, row: dict[str, float | int | str | bool]) -> None:
    print(json.dumps({"event": kind, **finite(row)}), flush=True)
