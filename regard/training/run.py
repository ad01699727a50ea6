"""A run directory: everything one training made, written so that a kill loses little.

    recipe.toml  tokenizer.json  corpus/  metrics.jsonl  checkpoints/  model.safetensors
    report.html

`run` is a generator of events; the command line prints them, a test stops after three.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import FrameType

import numpy as np
import tomli_w
import torch

from regard.data.batches import collate, too_long
from regard.data.corpus import Corpus, write_corpus
from regard.data.kinds import KINDS
from regard.data.subwords import Subwords
from regard.decoding import greedy
from regard.errors import LengthError, RunError
from regard.evaluating import exact_match
from regard.models import Transformer, build_transformer
from regard.training.checkpoints import (
    Progress,
    checkpoints,
    distinct_tensors,
    load_checkpoint,
    prune,
    read_progress,
    read_tensors,
    save_checkpoint,
    write_tensors,
    write_text,
)
from regard.training.hardware import Hardware
from regard.training.loop import CPU, Step, learn, make_optimiser, mean_loss
from regard.training.recipes import Recipe, examples
from regard.training.report import write_report

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Said:
    """Something a person should know."""

    text: str


@dataclass(frozen=True)
class Validated:
    """What the model can do on examples it never learned from."""

    step: int
    loss: float
    exact_match: float
    is_best: bool


@dataclass(frozen=True)
class Finished:
    """The end: where the model is, or that it is still to come."""

    path: Path
    progress: Progress
    is_complete: bool


Event = Said | Step | Validated | Finished


def run(
    recipe: Recipe, out: Path, *, resume: bool = False, hardware: Hardware = CPU
) -> Iterator[Event]:
    """Train by a recipe into a directory."""
    if (out / "model.safetensors").exists():
        if not resume:
            raise RunError(f"train: '{out}' holds a finished run. Choose another --out.")
        newest = checkpoints(out / "checkpoints")
        yield Finished(out, read_progress(newest[-1]) if newest else Progress(), is_complete=True)
        return
    if out.exists() and any(out.iterdir()) and not resume:
        raise RunError(
            f"train: '{out}' is not empty, and a run is never overwritten. Add --resume to go on "
            "with it, or choose another --out."
        )
    yield from _Training(recipe, out, hardware).events()


class _Training:
    """One training, from the files to the final weights."""

    def __init__(self, recipe: Recipe, out: Path, hardware: Hardware) -> None:
        self.recipe, self.out, self.hardware = recipe, out, hardware
        self.folder, self.metrics = out / "checkpoints", out / "metrics.jsonl"
        self.best: float | None = None
        self.best_step, self.stale = 0, 0
        self.rows: dict[str, np.ndarray] = {}

    def events(self) -> Iterator[Event]:
        training = self.recipe.training
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / "recipe.toml", tomli_w.dumps(self.recipe.as_table()))
        source, target = self._subwords()
        corpora = {split: self._corpus(split, source, target) for split in SPLITS}
        yield from self._lengths(corpora)
        torch.manual_seed(training.seed)
        model = build_transformer(
            self.recipe.model, n_source_tokens=len(source), n_target_tokens=len(target)
        ).to(self.hardware.device)
        optimiser = make_optimiser(model, training)
        progress = Progress(environment=environment())
        if found := checkpoints(self.folder):
            progress = load_checkpoint(found[-1], model, optimiser)
            yield from self._resumed(progress)
        else:
            self.metrics.unlink(missing_ok=True)
        count = sum(p.numel() for p in model.parameters())
        yield Said(f"{count:,} parameters, {len(corpora['train']):,} training examples")
        with _Stop() as stop:
            steps = learn(
                model,
                optimiser,
                corpora["train"],
                self.recipe,
                progress,
                hardware=self.hardware,
                rows=self.rows["train"],
            )
            for step in steps:
                progress = step.progress
                self._record(_step_record(step))
                yield step
                is_last = progress.step == training.steps
                if progress.step % training.validate_every == 0 or is_last:
                    yield self._validate(model, corpora["valid"], target, progress.step)
                gives_up = 0 < training.patience <= self.stale
                if progress.step % training.checkpoint_every == 0 or is_last or gives_up or stop:
                    self._save(model, optimiser, progress)
                if stop:
                    yield Finished(self.out, progress, is_complete=False)
                    return
                if gives_up:
                    yield Said(f"no better loss in {self.stale} validations: stopping")
                    break
        self._finish(model)
        write_report(self.out)
        yield Finished(self.out, progress, is_complete=True)

    def _subwords(self) -> tuple[Subwords, Subwords]:
        """Learned from the training split alone, once."""
        read = examples(self.recipe.data.train, "train")
        if self.recipe.tokens.is_joint:
            both = self._learned("", (t for e in read() for t in (e.source, *e.targets)))
            return both, both
        sources = (e.source for e in read())
        targets = (text for e in read() for text in e.targets)
        return self._learned("source", sources), self._learned("target", targets)

    def _learned(self, side: str, texts: Iterator[str]) -> Subwords:
        path = self.out / (f"tokenizer.{side}.json" if side else "tokenizer.json")
        if not path.exists():
            tokens = self.recipe.tokens
            Subwords.train(texts, kind=KINDS[tokens.kind], size=tokens.size).save(path)
        return Subwords.load(path)

    def _corpus(self, split: str, source: Subwords, target: Subwords) -> Corpus:
        path = self.out / "corpus" / split
        if path.exists():
            return Corpus.open(path)
        read = examples(getattr(self.recipe.data, split), split)
        return write_corpus(path, read(), source, target)

    def _lengths(self, corpora: dict[str, Corpus]) -> Iterator[Event]:
        """Rows past the limit are an error or are counted, never cut."""
        limit = self.recipe.data.max_tokens
        for split, corpus in corpora.items():
            rows = too_long(corpus, max_source=limit, max_target=limit)
            if len(rows) and self.recipe.data.on_long == "error":
                row = int(rows[0])
                raise LengthError(
                    f"data.{split}: {len(rows)} of {len(corpus)} examples have more than "
                    f"{limit} tokens (the first is number {int(corpus.examples[row]) + 1}, with "
                    f"{len(corpus.source(row))} source and {len(corpus.target(row))} target "
                    'tokens). Raise data.max_tokens, or set data.on_long = "skip".'
                )
            self.rows[split] = np.setdiff1d(np.arange(len(corpus)), rows)
            if len(rows):
                yield Said(f"{split}: {len(rows)} examples past {limit} tokens are left out")

    def _resumed(self, progress: Progress) -> Iterator[Event]:
        self.best, self.best_step = progress.best_loss, progress.best_step
        self.stale = progress.stale
        kept = [line for line in _lines(self.metrics) if json.loads(line)["step"] <= progress.step]
        write_text(self.metrics, "".join(kept))
        then, now = progress.environment, environment()
        torch.set_num_threads(int(then.get("threads", torch.get_num_threads())))
        changed = [k for k in ("torch", "capability") if then.get(k) != now[k]]
        if changed:
            yield Said(
                f"{' and '.join(changed)} changed since the checkpoint; the run goes on, but not "
                "to the bit"
            )
        yield Said(f"going on from step {progress.step}")

    def _validate(
        self, model: Transformer, corpus: Corpus, target: Subwords, step: int
    ) -> Validated:
        training = self.recipe.training
        rows, budget = self.rows["valid"], training.target_tokens_per_batch
        loss = mean_loss(model, corpus, target_tokens=budget, hardware=self.hardware, rows=rows)
        match = self._exact_match(model, corpus, target)
        is_best = self.best is None or loss < self.best
        if is_best:
            self.best, self.best_step, self.stale = loss, step, 0
        else:
            self.stale += 1
        self._record({"step": step, "valid_loss": loss, "exact_match": match})
        return Validated(step, loss, match, is_best)

    def _exact_match(self, model: Transformer, corpus: Corpus, target: Subwords) -> float:
        """The first examples of the split, decoded greedily, against all their references."""
        model.eval()
        references: dict[int, list[str]] = {}
        first: dict[int, int] = {}
        for row in self.rows["valid"].tolist():
            example = int(corpus.examples[row])
            if example >= self.recipe.training.validate_examples:
                break
            references.setdefault(example, []).append(target.decode(corpus.target(row).tolist()))
            first.setdefault(example, row)
        hypotheses = []
        rows = iter(first.values())
        while some := list(islice(rows, 250)):
            batch = collate(corpus, torch.tensor(some).numpy())
            longest = int(batch.source_lengths.max()) * 2 + 50
            source = self.hardware.put(batch.source)
            ids = greedy(model, source, max_tokens=min(longest, self.recipe.model.max_len))
            hypotheses += [target.decode(each) for each in ids]
        return exact_match(hypotheses, list(references.values()))

    def _save(
        self, model: Transformer, optimiser: torch.optim.Optimizer, progress: Progress
    ) -> None:
        whole = replace(progress, best_loss=self.best, best_step=self.best_step, stale=self.stale)
        save_checkpoint(self.folder, model, optimiser, whole)
        keep = max(self.recipe.training.keep_checkpoints, self.recipe.training.average_last)
        prune(self.folder, keep=keep, best_step=self.best_step)

    def _finish(self, model: Transformer) -> None:
        """The last weights, or the mean of the last checkpoints'."""
        weights = distinct_tensors(model)
        if self.recipe.training.average_last > 1:
            last = checkpoints(self.folder)[-self.recipe.training.average_last :]
            read = [read_tensors(path / "model.safetensors") for path in last]
            weights = {
                name: torch.stack([tensors[name] for tensors in read]).mean(0) for name in weights
            }
        write_tensors(self.out / "model.safetensors", {k: w.cpu() for k, w in weights.items()})

    def _record(self, row: dict[str, float | int]) -> None:
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


class _Stop:
    """Ctrl-C and SIGTERM ask for a stop; the update that is under way is finished first."""

    def __init__(self) -> None:
        self.asked = False

    def __bool__(self) -> bool:
        return self.asked

    def __enter__(self) -> "_Stop":
        self.before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        for each in self.before:
            signal.signal(each, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def environment() -> dict[str, str]:
    """What bit-equality depends on."""
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
    }


def _step_record(step: Step) -> dict[str, float | int]:
    return {
        "step": step.progress.step,
        "epoch": step.progress.epoch,
        "train_loss": step.nll,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm,
        "target_tokens": step.progress.target_tokens,
        "target_tokens_per_second": round(step.target_tokens / step.seconds, 1),
        "source_tokens_per_second": round(step.source_tokens / step.seconds, 1),
    }


def _lines(path: Path) -> list[str]:
    """The complete lines of a file that a kill may have cut short."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
