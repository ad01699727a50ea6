"""A run directory: everything one training made, written so that a kill loses little.

    recipe.toml  environment.json  data_paths.json  tokenizer.json  corpus/  metrics.jsonl
    checkpoints/  model.safetensors  report.html  card.md  and of pictures  pictures/  annotations/

`run` is a generator of events; the command line prints them, a test stops after three.
"""

import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import tomli_w
import torch

from regard.data.atomic_writes import sync, write_text
from regard.errors import RegardError, RunError, counted
from regard.hardware.hardware import CPU, Hardware, random_states
from regard.hardware.memory import lacks_memory
from regard.hardware.threads import Threads, use_threads
from regard.models import Model
from regard.recipes.data_paths import record_start
from regard.recipes.part_files import record_parts
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training import run_folder
from regard.training.adapters import adapt, merged, write_adapters
from regard.training.averages import MovingAverage, mean_of
from regard.training.card import write_card
from regard.training.checkpoint_hashes import RunHashes, check_run_is_whole, set_damaged_aside
from regard.training.checkpoints import (
    Progress,
    checkpoints,
    distinct_tensors,
    first_progress,
    load_checkpoint,
    load_weights,
    prune,
    read_progress,
    save_checkpoint,
    tensor_forms,
    update_of,
    write_tensors,
)
from regard.training.events import Event, Finished, Notice, Validated
from regard.training.kept_examples import keep_examples
from regard.training.loop import learn, make_optimiser
from regard.training.metrics_file import Metrics
from regard.training.preparation import Prepared, check_data, prepare
from regard.training.report import write_report
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import Best, validate
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
        is_same, is_new = partial(run_folder.check_is_same, recipe), run_folder.check_is_new
        workers.first_does(partial(is_same if resume else is_new, out))
        newest = checkpoints(out / "checkpoints")
        if (out / "model.safetensors").exists() and not run_folder.has_steps_left(recipe, out):
            progress = read_progress(newest[-1]) if newest else Progress()
            tensor_forms(out / "model.safetensors")
            if workers.is_first:
                yield Finished(out, progress, is_complete=True)
            return
        if resume and workers.is_first:
            notes += run_folder.changed_settings(recipe, out)
        yield from _recorded(_Training(recipe, out, hardware, workers), new, notes)


def _checked(out: Path) -> list[str]:
    """Notes on damaged checkpoints, which are set aside; what cannot be gone on from is refused."""
    notes = set_damaged_aside(checkpoints(out / "checkpoints"))
    for newest in checkpoints(out / "checkpoints")[-1:]:
        check_run_is_whole(out, newest)
    return notes


def _recorded(training: "_Training", new: Sequence[Path], notes: Sequence[str]) -> Iterator[Event]:
    """Write and yield the events of a training; if it fails before an update, delete its files."""
    out, is_first = training.out, training.workers.is_first
    is_untouched = is_first and not run_folder.holds_anything(out)
    try:
        yield from map(Notice, notes)
        for event in training.events():
            is_untouched = is_untouched and isinstance(event, Notice)
            if is_first:
                training.metrics.record(event)
                yield event
    except RegardError:
        if is_untouched:
            # so that a corrected recipe can use the same --out
            run_folder.delete_contents(out)
            for folder in new:
                with suppress(OSError):
                    folder.rmdir()
        raise
    finally:
        training.metrics.close()


class _Training:
    """One training, from the files to the final weights."""

    def __init__(self, recipe: Recipe, out: Path, hardware: Hardware, workers: Workers) -> None:
        self.recipe, self.out, self.hardware = recipe, out, hardware
        self.workers, self.metrics = workers, Metrics(out)
        self.folder, self.hashes = out / "checkpoints", RunHashes(out)
        self.best = Best()
        self.average: MovingAverage | None = None

    def events(self) -> Iterator[Event]:
        training, first = self.recipe.training, self.workers.is_first
        if first:
            self.out.mkdir(parents=True, exist_ok=True)
            if not (self.out / "recipe.toml").exists():
                # a resumed run may have begun in another folder
                record_start(self.out, self.recipe.data)
            write_text(self.out / "recipe.toml", tomli_w.dumps(self.recipe.as_table()))
            record_parts(self.out, self.recipe)
        sources = task_of(self.recipe).sources
        self.workers.first_does(lambda: check_data(self.recipe, self.out))
        yield from map(Notice, sources.slow_steps(self.out, None))
        prepared = prepare(self.recipe, self.out, self.workers)
        self.workers.first_does(lambda: keep_examples(self.out, self.recipe))
        # a run with updates continues with its first settings
        if not checkpoints(self.folder):
            prepared.check_lengths()
        yield from map(Notice, prepared.notes())
        torch.manual_seed(training.seed)
        self.model = self._built(prepared)
        started = self._started()
        if training.lora is not None:
            adapt(self.model, training.lora)
        if not first:
            torch.manual_seed(self.workers.seed(training.seed))
        self.optimiser = make_optimiser(self.model, training)
        progress = yield from self._begun(started)
        yield from map(Notice, sources.slow_steps(self.out, self.model))
        prepared = prepared.seen_by(self.model, self.hardware)
        if not progress.step:
            check_reaches_all_weights(self.model, prepared, self.hardware)
        count, learned_too = (
            sum(
                weight.numel() for weight in self.model.parameters() if weight.requires_grad or all_
            )
            for all_ in (True, False)
        )
        n_used = len(prepared.train.used)
        some = f", {learned_too:,} of them in adapters" if training.lora else ""
        yield Notice(f"{count:,} parameters{some}, {counted(n_used, 'training example')}")
        learned = (self.model, self.optimiser, prepared.of_epoch, self.recipe, progress)
        steps = learn(*learned, hardware=self.hardware, workers=self.workers)
        # a run may have been killed after it gave up and before its final weights were there
        gives_up, has_split = self._has_given_up(), False
        with run_folder.stop_signals() as signals:
            for step in () if gives_up else steps:
                progress = step.progress
                if self.average is not None:
                    self.average.follow(progress.step)
                if step.splits and not has_split:
                    has_split = True
                    yield Notice(
                        f"step {progress.step}: a batch did not fit into memory; {step.splits} "
                        "cuts made it fit, and nothing is left out. A smaller "
                        "training.target_tokens_per_batch avoids it."
                    )
                yield step
                is_last = progress.step == training.steps
                if first and (progress.step % training.validate_every == 0 or is_last):
                    # an error if the model diverged, so that it is not validated
                    self.metrics.flush()
                    with self._averaged():
                        found = validate(self.model, prepared, self.hardware, progress.step)
                    yield self.best.with_validation(found, training.stop_on)
                stop, gives_up = self.workers.any_of(bool(signals), first and self._has_given_up())
                if progress.step % training.checkpoint_every == 0 or is_last or gives_up or stop:
                    self._save(progress)
                if stop:
                    yield Finished(self.out, progress, is_complete=False)
                    return
                if gives_up:
                    break
        if gives_up:
            yield Notice(f"no better {training.stop_on} in {self.best.stale} validations: stopping")
        if first:
            yield from self._finish(prepared, progress, count)
        yield Finished(self.out, progress, is_complete=True)

    def _built(self, prepared: Prepared) -> Model:
        """The model, with its first weights; an error if it does not fit into memory."""
        try:
            return self.hardware.place(prepared.build())
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            raise RunError(
                "train: there is not enough memory for the model. Make it smaller; regard plan "
                "RECIPE says what a training takes."
            ) from error

    def _started(self) -> str:
        """Put the first weights into the model if it has no checkpoint; what they are, in words."""
        training = self.recipe.training
        if checkpoints(self.folder):
            return ""
        if training.start_from is None:
            task_of(self.recipe).sources.load_published_weights(self.model)
            return ""
        try:
            load_weights(run_folder.finished_weights(training.start_from), self.model)
        except RegardError as error:
            raise RunError(
                f"training.start_from: {error} Expected a finished run whose [model] and "
                "tokens are this recipe's."
            ) from error
        return f"starting from the weights of {training.start_from}"

    def _begun(self, started: str) -> Generator[Event, None, Progress]:
        """The newest checkpoint, or the start, in model, optimiser, average and metrics."""
        training, found = self.recipe.training, checkpoints(self.folder)
        progress = Progress(environment=environment(self.workers))
        if self.workers.is_first and not found:
            progress = first_progress(self.out, progress)
        if found:
            states = (self.model, self.optimiser)
            progress = load_checkpoint(found[-1], *states, suffix=self.workers.suffix)
            self.best = Best.at(progress)
            yield Notice(f"going on from step {progress.step}")
        elif started:
            yield Notice(started)
        yield from self._as_it_was(progress)
        if training.ema_decay:
            self.average = MovingAverage(self.model, training.ema_decay)
            if found:
                self.average.load(found[-1] / "average.safetensors")
        if self.workers.is_first:
            self.metrics.go_on(progress.step)
        return progress

    def _as_it_was(self, progress: Progress) -> Iterator[Event]:
        """Use the threads that the run began with; notes on them and on other changes."""
        then, now = progress.environment, environment(self.workers)
        names = ("torch", "capability", "processes")
        if changed := [name for name in names if then.get(name, now[name]) != now[name]]:
            yield Notice(
                f"{' and '.join(changed)} changed since the run was begun; it goes on, but not to "
                "the bit"
            )
        threads = self.hardware.threads
        if then.get("threads", now["threads"]) != now["threads"]:
            threads = Threads(int(then["threads"]), "the run was begun so")
            use_threads(threads.count)
        if threads is not None and self.hardware.device.type == "cpu":
            yield Notice(f"on {threads}")

    def _has_given_up(self) -> bool:
        """Whether the recipe's early stopping has ended the training."""
        return 0 < self.recipe.training.patience <= self.best.stale

    def _averaged(self) -> AbstractContextManager[None]:
        """A context in which the model has its averaged or merged weights, if there are such."""
        if self.recipe.training.lora is not None:
            return merged(self.model)
        return self.average.in_place() if self.average else nullcontext()

    def _save(self, progress: Progress) -> None:
        random = self.workers.gathered(random_states(self.hardware.device))
        if not self.workers.is_first:
            return
        training = self.recipe.training
        # metrics first: a resumed run does not write the rows before its checkpoint again
        self.metrics.flush()
        sync(self.metrics.path)
        save_checkpoint(
            self.folder,
            self.model,
            self.optimiser,
            replace(progress, **vars(self.best)),
            random=random,
            average=None if self.average is None else self.average.weights,
            run_hashes=self.hashes.current(),
        )
        # a checkpoint that a stop made is of no use beside a later one
        for path in set(checkpoints(self.folder)[:-1]) - set(self._regular(progress.step)):
            shutil.rmtree(path)
        keep = max(training.keep_checkpoints, training.average_last)
        prune(self.folder, keep=keep, best_step=self.best.best_step)

    def _regular(self, last: int) -> list[Path]:
        """The checkpoints that an uninterrupted run has too."""
        every = self.recipe.training.checkpoint_every
        found = checkpoints(self.folder)
        return [path for path in found if (step := update_of(path)) % every == 0 or step == last]

    def _finish(self, prepared: Prepared, progress: Progress, count: int) -> Iterator[Event]:
        """Write the last weights, or a mean of them, then the report and the card."""
        final: Validated | None = None
        with self._averaged():
            # copies, since the model gets its own weights back
            weights = {name: each.clone() for name, each in distinct_tensors(self.model).items()}
        if (n_last := self.recipe.training.average_last) > 1:
            last = self._regular(progress.step)[-n_last:]
            weights = mean_of([path / "model.safetensors" for path in last])
            self.model.load_state_dict(weights, strict=False)
            final = validate(self.model, prepared, self.hardware, progress.step)
            yield Notice(
                f"the mean of the last {len(last)} checkpoints: validation loss {final.loss:.4f}"
                f"{final.matched()}"
            )
        if self.recipe.training.lora is not None:
            write_adapters(self.out, self.model, self.recipe.training.lora)
        write_report(self.out)
        write_card(
            self.out,
            self.recipe,
            progress,
            parameters=count,
            hardware=self.hardware,
            workers=self.workers,
            weights=weights,
            final=final,
        )
        # last of all, since a run with weights is a finished one
        write_tensors(self.out / "model.safetensors", weights)


def environment(workers: Workers = SINGLE_PROCESS) -> dict[str, str]:
    """The environment on which bit-equality depends."""
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "processes": str(workers.count),
    }
