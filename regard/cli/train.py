"""regard train: a recipe becomes a run directory."""

from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.training.hardware import Hardware
from regard.training.loop import Step
from regard.training.recipes import read_recipe
from regard.training.run import Finished, Said, Validated, run


def train(
    recipe: Path = typer.Argument(help="A recipe file, for instance recipes/copy.toml."),
    out: Path = typer.Option(..., help="The run directory to make; never overwritten."),
    change: list[str] = typer.Option([], "--set", help="Change a key: training.steps=200."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the last checkpoint."),
    device: str | None = typer.Option(None, help="cpu or cuda; cuda where there is one."),
    precision: str | None = typer.Option(None, help="float32 or bfloat16; bfloat16 on cuda."),
) -> None:
    """Train a model by a recipe.

    Ctrl-C saves a checkpoint and stops; --resume goes on to the same weights, to the bit.

    Example: regard train recipes/copy.toml --out runs/copy
    """
    plan = read_recipe(recipe, change)
    hardware = Hardware.chosen(device, precision)
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=plan.training.steps, said="")
        for event in run(plan, out, resume=resume, hardware=hardware):
            if isinstance(event, Step):
                speed = event.target_tokens / event.seconds
                said = (
                    f"loss {event.nll:.3f}  rate {event.learning_rate:.1e}  {speed:,.0f} tokens/s"
                )
                bar.update(task, completed=event.progress.step, said=said)
            elif isinstance(event, Said):
                console.print(event.text, markup=False)
            elif isinstance(event, Validated):
                best = ", the best so far" if event.is_best else ""
                console.print(
                    f"step {event.step}: validation loss {event.loss:.4f}, "
                    f"exact match {event.exact_match:.4f}{best}",
                    markup=False,
                )
            elif isinstance(event, Finished):
                print(_ending(event))


def _ending(event: Finished) -> str:
    if event.is_complete:
        return f"finished at step {event.progress.step}: {event.path} (curves in report.html)"
    return f"stopped at step {event.progress.step}; go on with --resume: {event.path}"
