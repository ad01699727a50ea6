"""A run directory: everything one training made, written so that a kill loses little.

    recipe.toml  environment.json  data_paths.json  tokenizer.json  corpus/  metrics.jsonl
    checkpoints/  model.safetensors  report.html  card.md  and of pictures  pictures/  annotations/

`run` is a generator of events; the command line prints them, a test stops after three.
"""

import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import tomli_w
import torch

from regard.data.atomic_writes import sync, write_text
from regard.errors import RegardError, RunError
from regard.hardware.hardware import Hardware
from regard.hardware.memory import lacks_memory
from regard.hardware.random_states import random_states
from regard.hardware.threads import Threads, use_threads
from regard.models import Model, build_model
from regard.recipes.data_paths import record_start
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training.accumulation import CPU
from regard.training.averages import MovingAverage, mean_of
from regard.training.card import write_card
from regard.training.checkpoints import (
    Progress,
    checkpoints,
    distinct_tensors,
    first_progress,
    load_checkpoint,
    prune,
    read_progress,
    read_tensors,
    save_checkpoint,
    tensor_forms,
    write_tensors,
)
from regard.training.events import Event, Finished, Notice, Validated, matched
from regard.training.loop import Step, learn_by_epoch, make_optimiser
from regard.training.metrics_file import Metrics
from regard.training.preparation import Prepared, prepare
from regard.training.report import write_report
from regard.training.run_folder import (
    StopSignals,
    changed_settings,
    check_is_folder,
    check_is_new,
    check_is_same,
    check_is_there,
    delete_contents,
    holds_anything,
    locked,
)
from regard.training.starting_weights import start_from
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import Best, validate
from regard.training.workers import ALONE, Workers

__all__ = ["Event", "Finished", "Notice", "Validated", "run"]


def run(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    hardware: Hardware = CPU,
    workers: Workers = ALONE,
) -> Iterator[Event]:
    """Train by a recipe into a directory; of several workers only the first has events."""
    workers.first_does(lambda: check_is_folder(out))
    if resume:
        workers.first_does(lambda: check_is_there(out))
    new = [each for each in (out, *out.parents) if not each.exists()]
    with ExitStack() as held:
        held.enter_context(hardware.on_threads())
        # what is found out about the folder stays so
        workers.first_does(lambda: held.enter_context(locked(out)))
        workers.first_does(lambda: check_is_same(recipe, out) if resume else check_is_new(out))
        if (out / "model.safetensors").exists():
            newest = checkpoints(out / "checkpoints")
            progress = read_progress(newest[-1]) if newest else Progress()
            tensor_forms(out / "model.safetensors")
            if workers.is_first:
                yield Finished(out, progress, is_complete=True)
            return
        yield from _recorded(_Training(recipe, out, hardware, workers), new, resume=resume)


def _recorded(training: "_Training", new: Sequence[Path], *, resume: bool) -> Iterator[Event]:
    """The events of a training, written down; what was made before its first update may go."""
    recipe, out, workers = training.recipe, training.out, training.workers
    notes = changed_settings(recipe, out) if resume and workers.is_first else []
    is_untouched = workers.is_first and not holds_anything(out)
    try:
        yield from (Notice(note) for note in notes)
        for event in training.events():
            # what was only said is no beginning: the first update is
            is_untouched = is_untouched and isinstance(event, Notice)
            if workers.is_first:
                training.metrics.record(event)
                yield event
    except RegardError:
        if is_untouched:
            # a mended recipe can be given the same --out
            delete_contents(out)
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
        self.folder = out / "checkpoints"
        self.best = Best(recipe.training.stop_on)
        self.average: MovingAverage | None = None

    def events(self) -> Iterator[Event]:
        training, first = self.recipe.training, self.workers.is_first
        if first:
            self.out.mkdir(parents=True, exist_ok=True)
            if not (self.out / "recipe.toml").exists():
                # a run that goes on may have been begun in another folder
                record_start(self.out, self.recipe.data)
            write_text(self.out / "recipe.toml", tomli_w.dumps(self.recipe.as_table()))
        sources = task_of(self.recipe).sources
        yield from map(Notice, sources.slow_steps(self.out, None))
        prepared = prepare(self.recipe, self.out, self.workers)
        # what has learned already goes on as it was begun
        if not checkpoints(self.folder):
            prepared.check_lengths()
        yield from (Notice(note) for note in prepared.notes())
        torch.manual_seed(training.seed)
        self.model = self._built(prepared)
        if not first:
            torch.manual_seed(self.workers.seed(training.seed))
        self.optimiser = make_optimiser(self.model, training)
        progress = yield from self._begun()
        yield from map(Notice, sources.slow_steps(self.out, self.model))
        prepared = prepared.seen_by(self.model, self.hardware)
        # what has learned already goes on as it was begun
        if not progress.step:
            check_reaches_all_weights(self.model, prepared, self.hardware)
        count = sum(p.numel() for p in self.model.parameters())
        yield Notice(f"{count:,} parameters, {prepared.train.count:,} training examples")
        steps = learn_by_epoch(
            self.model,
            self.optimiser,
            prepared.of_epoch,
            self.recipe,
            progress,
            hardware=self.hardware,
            workers=self.workers,
        )
        # a run may have been killed when it had given up, and before its final weights were there
        gives_up = self._has_given_up()
        with StopSignals() as asked:
            for step in () if gives_up else self._watched(steps):
                if isinstance(step, Notice):
                    yield step
                    continue
                progress = step.progress
                yield step
                is_last = progress.step == training.steps
                if first and (progress.step % training.validate_every == 0 or is_last):
                    # a model that ran away has nothing to be validated
                    self.metrics.flush()
                    with self.average.in_place() if self.average else nullcontext():
                        found = validate(self.model, prepared, self.hardware, progress.step)
                    yield self.best.seen(found)
                stop, gives_up = self.workers.any_of(bool(asked), first and self._has_given_up())
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
        """The model, with its first weights; what does not fit anywhere is told in a sentence."""
        try:
            model = build_model(
                self.recipe.model,
                n_source_tokens=len(prepared.source),
                n_target_tokens=len(prepared.target),
            )
            return self.hardware.place(model)
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            raise RunError(
                "train: there is not enough memory for the model. Make it smaller; regard plan "
                "RECIPE says what a training takes."
            ) from error

    def _begun(self) -> Generator[Event, None, Progress]:
        """The newest checkpoint, or the start, in model, optimiser, average and metrics."""
        training, found = self.recipe.training, checkpoints(self.folder)
        progress = Progress(environment=environment(self.workers))
        if self.workers.is_first and not found:
            progress = first_progress(self.out, progress)
        if found:
            progress = load_checkpoint(
                found[-1], self.model, self.optimiser, suffix=self.workers.suffix
            )
            self.best = Best.at(progress, training.stop_on)
            yield Notice(f"going on from step {progress.step}")
        elif training.start_from is not None:
            start_from(training.start_from, self.model)
            yield Notice(f"starting from the weights of {training.start_from}")
        else:
            task_of(self.recipe).sources.load_published_weights(self.model)
        yield from self._as_it_was(progress)
        if training.ema_decay:
            self.average = MovingAverage(self.model, training.ema_decay)
            if found:
                path = found[-1] / "average.safetensors"
                self.average.load(read_tensors(path), path)
        if self.workers.is_first:
            self.metrics.go_on(progress.step)
        return progress

    def _as_it_was(self, progress: Progress) -> Iterator[Event]:
        """Threads as when the run was begun, and a note on what else is not as it was."""
        then, now = progress.environment, environment(self.workers)
        changed = [k for k in ("torch", "capability", "processes") if then.get(k, now[k]) != now[k]]
        if changed:
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
        """Whether nothing became better for as long as the recipe has patience."""
        return 0 < self.recipe.training.patience <= self.best.stale

    def _watched(self, steps: Iterator[Step]) -> Iterator[Step | Notice]:
        """The average follows every step; the first batch that did not fit is spoken of."""
        has_split = False
        for step in steps:
            if self.average is not None:
                self.average.follow(step.progress.step)
            if step.splits and not has_split:
                has_split = True
                yield Notice(
                    f"step {step.progress.step}: a batch did not fit into memory; {step.splits} "
                    "cuts made it fit, and nothing is left out. A smaller "
                    "training.target_tokens_per_batch avoids it."
                )
            yield step

    def _save(self, progress: Progress) -> None:
        random = self.workers.gathered(random_states(self.hardware.device))
        if not self.workers.is_first:
            return
        training = self.recipe.training
        # numbers first: what a checkpoint knows of is never written again
        self.metrics.flush()
        sync(self.metrics.path)
        save_checkpoint(
            self.folder,
            self.model,
            self.optimiser,
            self.best.into(progress),
            random=random,
            average=None if self.average is None else self.average.weights,
        )
        # one that was written because of a stop is of no use beside a later one
        for path in set(checkpoints(self.folder)[:-1]) - set(self._regular(progress.step)):
            shutil.rmtree(path)
        keep = max(training.keep_checkpoints, training.average_last)
        prune(self.folder, keep=keep, best_step=self.best.step)

    def _regular(self, last: int) -> list[Path]:
        """The checkpoints that an uninterrupted run has too."""
        every = self.recipe.training.checkpoint_every
        steps = {path: read_progress(path).step for path in checkpoints(self.folder)}
        return [path for path, step in steps.items() if step % every == 0 or step == last]

    def _finish(self, prepared: Prepared, progress: Progress, count: int) -> Iterator[Event]:
        """The last weights, or a mean of them; then what there is to read about the run."""
        final: Validated | None = None
        with self.average.in_place() if self.average else nullcontext():
            # copies, since the model has other weights right after
            weights = {name: each.clone() for name, each in distinct_tensors(self.model).items()}
        if self.recipe.training.average_last > 1:
            last = self._regular(progress.step)[-self.recipe.training.average_last :]
            weights = mean_of([path / "model.safetensors" for path in last])
            own = self.model.state_dict()
            with torch.no_grad():
                for name, tensor in weights.items():
                    own[name].copy_(tensor)
            final = validate(self.model, prepared, self.hardware, progress.step)
            yield Notice(
                f"the mean of the last {len(last)} checkpoints: validation loss {final.loss:.4f}"
                f"{matched(final)}"
            )
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


def environment(workers: Workers = ALONE) -> dict[str, str]:
    """What bit-equality depends on."""
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "processes": str(workers.count),
    }
