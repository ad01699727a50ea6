"""regard demo: the whole story on generated dates: train, score, look, write a page."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from regard.cli.train import STOPPED, ForPeople
from regard.evaluating.heads import view_table
from regard.inspecting.panels import View
from regard.plots.alignment import head_grid
from regard.plots.words import print_words
from regard.recipes.recipe import Recipe
from regard.runs.demo import (
    ALIGNED,
    HARDWARE,
    Answered,
    Findings,
    aligned,
    answers,
    check_out,
    demo_recipe,
    to_choose_from,
    to_show,
    unseen,
)
from regard.runs.demo_report import write_demo_report
from regard.runs.trained import Trained, load
from regard.training.events import Finished
from regard.training.run import run

T = TypeVar("T")


def demo(
    out: Path = typer.Option(Path("demo-run"), help="The run directory; never overwritten."),
    seed: int | None = typer.Option(None, help="Of weights and order; the recipe's unless given."),
    steps: int | None = typer.Option(None, min=1, help="Updates; the recipe's unless given."),
    change: list[str] = typer.Option([], "--set", help="Change a key, as in regard train."),
) -> None:
    """Train a small Transformer on dates in 22 languages, score it, and show where it looked.

    About two minutes on two cores. A finished run is shown again without training; one that was
    interrupted goes on.

    Example: regard demo --out demo-run
    """
    given = {"training.seed": seed, "training.steps": steps}
    sugar = [f"{key}={value}" for key, value in given.items() if value is not None]
    recipe = demo_recipe([*change, *sugar])
    check_out(out, recipe)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with HARDWARE.on_threads():
        _train(recipe, out, console)
        found = _measured(load(out, device="cpu"), recipe, console)
    _say(found)
    report = write_demo_report(out, found)
    regard, head = _called(), found.pictured
    assert head.layer is not None and head.head is not None
    print(f'\nNext: {regard} predict {out} --text "Mittwoch, 9. Mai 2029"')
    print(
        f'Letters behind each digit: {regard} look {out} "Mittwoch, 9. Mai 2029" --pieces '
        f"--layer {head.layer + 1} --head {head.head + 1}"
    )
    print(f"See it: {regard} serve {out} --open")
    print(_last_line(found, report), flush=True)


def _train(recipe: Recipe, out: Path, console: Console) -> None:
    """To the end, or with a word about how to go on."""
    if (out / "model.safetensors").is_file():
        console.print(f"{out} is a finished run: nothing is trained again", markup=False)
        return
    teller = ForPeople(console, recipe.training.steps)
    try:
        for event in run(recipe, out, resume=out.exists(), hardware=HARDWARE):
            if not isinstance(event, Finished):
                teller.tell(event)
            elif not event.is_complete:
                teller.close()
                print(f"stopped at step {event.progress.step}; the same command goes on: {out}")
                raise typer.Exit(STOPPED)
    finally:
        teller.close()


def _measured(trained: Trained, recipe: Recipe, console: Console) -> Findings:
    asked, others = unseen(recipe), to_choose_from(recipe)
    some = asked[:ALIGNED]
    found: dict[int, Answered] = dict(
        _counted(answers(trained, asked), len(asked), "answering", console)
    )
    answered = [found[place] for place in range(len(asked))]
    chosen_on, reported_on = (
        view_table(
            aligned(trained, one) for one in _counted(dates, len(dates), "aligning", console)
        )
        for dates in (others, some)
    )
    records = [trained.look(one.example.source, one.text) for one in to_show(answered)]
    return Findings(answered, chosen_on, reported_on, records)


def _counted(items: Iterable[T], total: int, text: str, console: Console) -> Iterator[T]:
    """The same items under a bar, where there is a terminal."""
    bar = Progress(
        TextColumn(text),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        yield from bar.track(items, total=total)


def _say(found: Findings) -> None:
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
    dates = min(ALIGNED, found.accuracy.count)
    print(f"Alignment error rate in per cent on {dates} unseen dates, * the lowest\n")
    print(head_grid(found.reported_on))
    print(f"\nchosen on other dates: {best.view}; here {best.reported_on}")


def _called() -> str:
    """How regard is called here: by its name, if it is to be found by it."""
    return "regard" if shutil.which("regard") else sys.argv[0]


def _last_line(found: Findings, report: Path) -> str:
    accuracy = found.accuracy
    lowest = min(found.by_language.values(), key=lambda share: share.value)
    return (
        f"accuracy {accuracy} ({accuracy.right:,} of {accuracy.count:,} unseen dates, no language "
        f"below {lowest}); report: {report}"
    )
