"""Trainer: one training, from its data to its final weights, as a generator of events."""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import final

import tomli_w
import torch

from regard.data.atomic_writes import sync, write_text
from regard.errors import RegardError, RunError, counted
from regard.hardware.hardware import Hardware, random_states
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
from regard.training.checkpoint_hashes import RunHashes
from regard.training.checkpoints import (
    DECODED_EXAMPLES,
    ENVIRONMENT,
    Progress,
    checkpoints,
    distinct_tensors,
    first_progress,
    load_checkpoint,
    load_weights,
    prune,
    read_environment,
    save_checkpoint,
    update_of,
    write_environment,
    write_tensors,
)
from regard.training.events import ChosenThreads, Event, Finished, Notice, Validated
from regard.training.kept_examples import keep_examples
from regard.training.loop import learn, make_optimiser
from regard.training.metrics_file import Metrics
from regard.training.preparation import Prepared, check_data, prepare
from regard.training.report import write_report
from regard.training.samples import sample_answers
from regard.training.thread_choice import fastest_threads
from regard.training.unreached_weights import check_reaches_all_weights
from regard.training.validation import Best, ValidationTime, validate
from regard.training.workers import Workers


@final
class Trainer:
    """One training, from the files to the final weights."""

    def __init__(self, recipe: Recipe, out: Path, hardware: Hardware, workers: Workers) -> None:
        self.recipe, self.out, self.hardware = recipe, out, hardware
        self.workers, self.metrics = workers, Metrics(out)
        self.folder, self.hashes = out / "checkpoints", RunHashes(out)
        self.best, self.threads = Best(), hardware.threads
        self.n_decoded: int | None = None
        self.has_validated = False
        self.average: MovingAverage | None = None

    def events(self) -> Iterator[Event]:
        """Train, and yield what happens."""
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
        if self.recipe.training.epochs:
            yield from self._in_updates(prepared.recipe)
            training = self.recipe.training
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
        is_begun = bool(checkpoints(self.folder)) or (self.out / ENVIRONMENT).exists()
        progress = yield from self._begun(started, is_begun=is_begun)
        yield from map(Notice, sources.slow_steps(self.out, self.model))
        prepared = prepared.seen_by(self.model, self.hardware)
        if not progress.step:
            check_reaches_all_weights(self.model, prepared, self.hardware)
        if not is_begun and self.workers.count == 1:
            progress = self._on_fastest_threads(prepared, progress)
        if self.threads is not None and self.hardware.device.type == "cpu":
            yield ChosenThreads(self.threads)
        weights = list(self.model.parameters())
        count = sum(weight.numel() for weight in weights)
        adapted = sum(weight.numel() for weight in weights if weight.requires_grad)
        n_used = len(prepared.train.used)
        some = f", {adapted:,} of them in adapters" if training.lora else ""
        yield Notice(f"{count:,} parameters{some}, {counted(n_used, 'training example')}")
        learned = (self.model, self.optimiser, prepared.of_epoch, self.recipe, progress)
        steps = learn(*learned, hardware=self.hardware, workers=self.workers)
        # a run may have been killed after it gave up and before its final weights were there
        gives_up, has_split, time = self._has_given_up(), False, ValidationTime(training)
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
                if step.is_skipped and progress.loss_scale and progress.loss_scale.skipped == 1:
                    yield Notice(progress.loss_scale.skip_note(progress.step))
                yield step
                time.add(step.seconds)
                is_last = progress.step == training.steps
                if first and (progress.step % training.validate_every == 0 or is_last):
                    yield from self._validated(prepared, progress, time)
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

    def _in_updates(self, recipe: Recipe) -> Iterator[Event]:
        """Go on with a recipe whose epochs were counted in updates, and say how many they are."""
        epochs, self.recipe = self.recipe.training.epochs, recipe
        if self.workers.is_first:
            write_text(self.out / "recipe.toml", tomli_w.dumps(recipe.as_table()))
        yield Notice(f"{epochs:g} epochs are {counted(recipe.training.steps, 'update')}")

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

    def _begun(self, started: str, *, is_begun: bool) -> Generator[Event, None, Progress]:
        """The newest checkpoint, or the start, in model, optimiser, average and metrics."""
        training, found = self.recipe.training, checkpoints(self.folder)
        progress = Progress(environment=environment(self.hardware, self.workers))
        if self.workers.is_first and not found:
            progress = first_progress(self.out, progress)
        if found:
            states = (self.model, self.optimiser)
            progress = load_checkpoint(found[-1], *states, suffix=self.workers.suffix)
            self.best = Best.at(progress)
            yield Notice(f"going on from step {progress.step}")
        elif started:
            yield Notice(started)
        if (decoded := read_environment(self.out).get(DECODED_EXAMPLES)) is not None:
            self.n_decoded = int(decoded)
        progress = yield from self._as_it_was(progress, is_begun=is_begun)
        if training.ema_decay:
            self.average = MovingAverage(self.model, training.ema_decay)
            if found:
                self.average.load(found[-1] / "average.safetensors")
        if self.workers.is_first:
            self.metrics.go_on(progress.step)
        return progress

    def _as_it_was(self, progress: Progress, *, is_begun: bool) -> Generator[Event, None, Progress]:
        """Use the threads that the run began with, unless others are given; notes on changes."""
        then, now = progress.environment, environment(self.hardware, self.workers)
        is_given = self.threads is not None and self.threads.is_given
        names = ["torch", "capability", "processes", "device", "precision"]
        names += ["threads"] if is_given else []
        if changed := [name for name in names if then.get(name, now[name]) != now[name]]:
            yield Notice(
                f"{' and '.join(changed)} changed since the run was begun; it goes on, but not to "
                "the bit"
            )
        begun_on = then.get("threads", now["threads"])
        is_kept = is_begun and not is_given and self.threads is not None
        if is_kept or (not is_given and begun_on != now["threads"]):
            self.threads = Threads(int(begun_on), "the run was begun so")
            use_threads(self.threads.count)
        return self._recorded(progress) if is_given else progress

    def _on_fastest_threads(self, prepared: Prepared, progress: Progress) -> Progress:
        """Choose the number of threads for a new run, and record it."""
        self.threads = fastest_threads(self.model, prepared, self.hardware)
        return self._recorded(progress)

    def _recorded(self, progress: Progress) -> Progress:
        """The progress with the threads in use and their reason, which the run records."""
        if self.threads is None:
            return progress
        used = {"threads": str(self.threads.count), "threads_reason": self.threads.reason}
        progress = replace(progress, environment={**progress.environment, **used})
        recorded = {**read_environment(self.out), **progress.environment}
        self.workers.first_does(lambda: write_environment(self.out, recorded))
        return progress

    def _validated(
        self, prepared: Prepared, progress: Progress, time: ValidationTime
    ) -> Iterator[Event]:
        """Validate; the first validation of a run chooses how many examples all of them decode."""
        # an error if the model diverged, so that it is not validated
        self.metrics.flush()
        with self._averaged():
            found = validate(
                self.model, prepared, self.hardware, progress.step,
                n_examples=self.n_decoded, seconds=time.seconds,
            )  # fmt: skip
            samples = sample_answers(self.model, prepared, self.hardware, self.out)
        count, is_first, self.has_validated = found.decoded_examples, not self.has_validated, True
        is_chosen = self.recipe.training.validate_examples is None and self.n_decoded is None
        if is_chosen and count is not None:
            self.n_decoded = count
            # before its scores, so that a run which was killed in between decodes as many again
            recorded = {**read_environment(self.out), DECODED_EXAMPLES: str(count)}
            write_environment(self.out, recorded)
        found = replace(found, samples=samples)
        yield self.best.with_validation(found, self.recipe.training.stop_on)
        if is_first and (note := time.note(found)) is not None:
            yield Notice(note)
        if is_chosen and count is not None:
            yield Notice(
                f"each validation decodes {counted(count, 'example')}, for which "
                f"training.validation_share = {self.recipe.training.validation_share:g} of the "
                f"time pays here; training.validate_examples = {count} decodes as many anywhere"
            )

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
            final = validate(
                self.model, prepared, self.hardware, progress.step, n_examples=self.n_decoded
            )
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


def environment(hardware: Hardware, workers: Workers) -> dict[str, str]:
    """The environment on which bit-equality depends."""
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "processes": str(workers.count),
        "device": hardware.device.type,
        "precision": str(hardware.precision).removeprefix("torch."),
    }
