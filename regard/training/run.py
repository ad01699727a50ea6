"""A run directory: everything one training made, written so that a kill loses little.

    recipe.toml  environment.json  data_paths.json  tokenizer.json  corpus/  metrics.jsonl
    samples.jsonl  checkpoints/  model.safetensors  report.html  card.md
    and of pictures  pictures/  annotations/

`run` is a generator of events; the command line prints them, a test stops after three.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from regard.hardware.hardware import CPU, Hardware
from regard.recipes.recipe import Recipe
from regard.training import run_folder
from regard.training.checkpoint_hashes import check_run_is_whole, set_damaged_aside
from regard.training.checkpoints import (
    Progress,
    checkpoints,
    read_progress,
    tensor_forms,
)
from regard.training.events import ChosenThreads, Event, Finished, Notice, Validated
from regard.training.preparation import in_updates
from regard.training.trainer import Trainer
from regard.training.workers import SINGLE_PROCESS, Workers

__all__ = ["Event", "Finished", "Notice", "Validated", "run"]


def run(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    hardware: Hardware = CPU,
    workers: Workers = SINGLE_PROCESS,
) -> Iterator[Event]:
    """Train by a recipe into a directory; of several workers only the first has events."""
    workers.first_does(lambda: run_folder.check_is_folder(out))
    if resume:
        workers.first_does(lambda: run_folder.check_is_there(out))
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    with ExitStack() as held:
        held.enter_context(hardware.on_threads())
        # checked under the lock, so that what is found stays so
        workers.first_does(lambda: held.enter_context(run_folder.locked(out)))
        notes: list[str] = []
        if resume:
            workers.first_does(lambda: notes.extend(_checked(out)))
            recipe = in_updates(recipe, out)
        is_same, is_new = partial(run_folder.check_is_same, recipe), run_folder.check_is_new
        workers.first_does(partial(is_same if resume else is_new, out))
        newest = checkpoints(out / "checkpoints")
        if (out / "model.safetensors").exists() and not run_folder.has_steps_left(recipe, out):
            progress = read_progress(newest[-1]) if newest else Progress()
            tensor_forms(out / "model.safetensors")
            if workers.is_first:
                yield Notice(
                    f"'{out}' is finished, and nothing was trained; "
                    "a larger training.steps trains it longer"
                )
                yield Finished(out, progress, is_complete=True)
            return
        if resume and workers.is_first:
            notes += run_folder.changed_settings(recipe, out)
        yield from _recorded(Trainer(recipe, out, hardware, workers), new, notes)


def _checked(out: Path) -> list[str]:
    """Notes on damaged checkpoints, which are set aside; what cannot be gone on from is refused."""
    notes = set_damaged_aside(checkpoints(out / "checkpoints"))
    for newest in checkpoints(out / "checkpoints")[-1:]:
        check_run_is_whole(out, newest)
    return notes


def _recorded(training: Trainer, new: Sequence[Path], notes: Sequence[str]) -> Iterator[Event]:
    """Write and yield the events of a training; if it fails before an update, delete its files."""
    out, is_first = training.out, training.workers.is_first
    is_untouched = is_first and not run_folder.holds_anything(out)
    try:
        yield from map(Notice, notes)
        for event in training.events():
            is_untouched = is_untouched and isinstance(event, Notice | ChosenThreads)
            if is_first:
                training.metrics.record(event)
                yield event
    except (Exception, KeyboardInterrupt):
        if is_untouched:
            # whatever it was, so that the same command can use the same --out
            run_folder.delete_contents(out)
            for folder in new:
                with suppress(OSError):
                    folder.rmdir()
        raise
    finally:
        training.metrics.close()
