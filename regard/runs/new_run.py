"""A new run from Python: a recipe → a run directory, loaded, as `regard train` makes it."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.errors import RecipeError, SettingError
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import Recipe, parse_recipe, read_recipe
from regard.runs.trained import Trained, load
from regard.tasks import check_task
from regard.training.display import TrainingDisplay, live_curve
from regard.training.events import Finished
from regard.training.run import run


def train(
    recipe: Recipe | Mapping[str, Any] | Path | str,
    out: Path | str,
    *,
    changes: Sequence[str] = (),
    resume: bool = False,
    device: str | None = None,
    precision: str | None = None,
    compiles: bool | None = None,
    threads: int | None = None,
) -> Trained:
    """Train a model by a recipe into a run directory, and load the run.

    A terminal shows a bar, a notebook draws the losses as they come. Ctrl-C, or a notebook's
    button, saves a checkpoint and ends in a KeyboardInterrupt; `resume` goes on from there.

    Args:
        recipe: a recipe file, its sections as dictionaries, or a `Recipe`.
        out: the directory to make; a finished run in it is never overwritten.
        changes: "training.steps=200" and the like, as behind --set.
        resume: go on with `out`.
        device: "cpu" or "cuda"; a GPU where there is one.
        precision: "float32" or "bfloat16"; "bfloat16" on a GPU.
        compiles: whether the layers are compiled first; on a GPU they are unless given.
        threads: how many share a product on a CPU; as trials tell unless given.
    """
    plan, folder = _read(recipe, changes), Path(out)
    hardware = Hardware.chosen(device, precision, compiles=compiles, threads=threads)
    curve, console = live_curve(), Console(stderr=True, highlight=False, soft_wrap=True)
    with closing(TrainingDisplay(console)) as display:
        for event in run(plan, folder, resume=resume, hardware=hardware):
            display.show(event)
            if curve is not None:
                curve.show(event)
            if isinstance(event, Finished) and not event.is_complete:
                raise KeyboardInterrupt(
                    f"stopped at step {event.progress.step}; '{folder}' holds a checkpoint. Go on "
                    "with regard.train(…, resume=True)."
                )
    return load(folder, device=device, threads=threads)


def _read(recipe: Recipe | Mapping[str, Any] | Path | str, changes: Sequence[str]) -> Recipe:
    if isinstance(changes, str):
        raise SettingError(f"train: changes must be a list of texts. Write [{changes!r}].")
    if isinstance(recipe, str | Path):
        if "\n" in str(recipe):
            raise RecipeError(
                "train: expected the file of a recipe, got its text. Write it into a file, or give "
                "tomllib.loads(text)."
            )
        return read_recipe(Path(recipe), changes, check=check_task)
    if changes:
        raise SettingError(
            "train: changes are for a recipe file. Change the recipe itself, which is in Python."
        )
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, Mapping):
        raise SettingError(
            f"train: expected the file of a recipe, its sections as dictionaries or a Recipe, got "
            f'an object of {type(recipe).__name__}. Give one, such as train("copy", …).'
        )
    return parse_recipe(recipe, "the recipe", {})
