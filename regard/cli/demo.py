"""regard demo: the whole story on generated dates: train, score, look, write a page."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from shlex import quote
from typing import TypeVar

import typer
from rich.console import Console

from regard.cli.options import check_threads
from regard.cli.train import STOPPED
from regard.evaluating.attention_links import view_table
from regard.hardware.hardware import Hardware
from regard.inspecting.panels import View
from regard.plots.head_errors import head_grid
from regard.plots.terminal_words import print_words
from regard.progress import counter
from regard.recipes.recipe import Recipe
from regard.runs import demo as dates
from regard.runs.trained import Trained, load
from regard.training.display import TrainingDisplay
from regard.training.events import Finished
from regard.training.run import run

T = TypeVar("T")


def demo(
    out: Path = typer.Option(Path("demo-run"), help="The run directory; never overwritten."),
    seed: int | None = typer.Option(None, help="Of weights and order; the recipe's unless given."),
    steps: int | None = typer.Option(None, min=1, help="Updates; the recipe's unless given."),
    change: list[str] = typer.Option([], "--set", help="Change a key, as in regard train."),
    threads: int | None = typer.Option(
        None,
        help="Threads of the CPU; one, for the same numbers everywhere, unless given.",
        callback=check_threads,
    ),
) -> None:
    """Train a small Transformer on dates in 22 languages, score it, and show where it looked.

    About two minutes on two cores. A finished run is shown again without training; one that was
    interrupted goes on.

    Example: regard demo --out demo-run
    """
    given = {"training.seed": seed, "training.steps": steps}
    sugar = [f"{key}={value}" for key, value in given.items() if value is not None]
    recipe = dates.demo_recipe([*change, *sugar])
    dates.check_out(out, recipe)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    hardware = dates.demo_hardware(threads)
    with hardware.on_threads():
        _train(recipe, out, hardware, console)
        trained = load(out, device="cpu", threads=threads or dates.ONE_THREAD.count)
        found = _measured(trained, recipe, console)
    _print_findings(found)
    report = dates.write_demo_report(out, found)
    # the command `regard` may not be on the path
    regard = "regard" if shutil.which("regard") else f"{quote(sys.executable)} -m regard"
    head, accuracy = found.pictured, found.accuracy
    lowest = min(found.by_language.values(), key=lambda share: share.value)
    assert head.layer is not None and head.head is not None
    print(f'\nNext: {regard} predict {out} --text "Mittwoch, 9. Mai 2029"')
    print(
        f'Letters behind each digit: {regard} look {out} "Mittwoch, 9. Mai 2029" --pieces '
        f"--layer {head.layer + 1} --head {head.head + 1}"
    )
    print(f"See it: {regard} serve {out} --open")
    print(
        f"accuracy {accuracy} ({accuracy.right:,} of {accuracy.count:,} unseen dates, no language "
        f"below {lowest}); report: {report}",
        flush=True,
    )


def _train(recipe: Recipe, out: Path, hardware: Hardware, console: Console) -> None:
    """Train to the end; a stopped training prints how to resume."""
    if (out / "model.safetensors").is_file():
        console.print(f"{out} is a finished run: nothing is trained again", markup=False)
        return
    with closing(TrainingDisplay(console)) as display:
        for event in run(recipe, out, resume=out.exists(), hardware=hardware):
            if not isinstance(event, Finished):
                display.show(event)
            elif not event.is_complete:
                display.close()
                print(f"stopped at step {event.progress.step}; the same command goes on: {out}")
                raise typer.Exit(STOPPED)


def _measured(trained: Trained, recipe: Recipe, console: Console) -> dates.Findings:
    unseen = dates.unseen(recipe)
    found = dict(_counted(dates.answers(trained, unseen), len(unseen), "answering", console))
    answered = [found[place] for place in range(len(unseen))]
    chosen_on, reported_on = (
        view_table(
            dates.aligned(trained, one)
            for one in _counted(examples, len(examples), "aligning", console)
        )
        for examples in (dates.to_choose_from(recipe), unseen[: dates.MAX_ALIGNED_DATES])
    )
    records = [trained.look(one.example.source, one.text) for one in dates.to_show(answered)]
    return dates.Findings(answered, chosen_on, reported_on, records)


def _counted(items: Iterable[T], total: int, text: str, console: Console) -> Iterator[T]:
    """The items, while a bar counts them if there is a terminal."""
    with counter(console) as bar:
        yield from bar.track(items, total=total, description=text)


def _print_findings(found: dates.Findings) -> None:
    print(f"\nExact match on {found.accuracy.count:,} unseen dates, by language\n")
    for name, share in found.by_language.items():
        print(f"  {name:<12}{share!s:>8}   {share.right:>4} of {share.count}")
    wrong = [one for one in found.answered if not one.is_right]
    for one in wrong[:5]:
        print(f"  wrong: {one.example.source}  →  {one.text}, not {one.example.targets[0]}")
    head = found.pictured
    print("\nWhere the model looked: the head that aligns best while it predicts\n")
    console = Console(highlight=False)
    for record in found.records:
        print_words(record, View("cross", head.layer, head.head), console=console)
        print()
    best = found.best
    count = min(dates.MAX_ALIGNED_DATES, found.accuracy.count)
    print(f"Alignment error rate in per cent on {count} unseen dates, * the lowest\n")
    print(head_grid(found.reported_on))
    print(f"\nchosen on other dates: {best.view}; here {best.reported_on}")
