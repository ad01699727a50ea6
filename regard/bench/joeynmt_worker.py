"""A worker process with Joey NMT's own training loop, which runs a few updates per request.

    python joeynmt_worker.py CONFIGURATION

It is run as a file, by an interpreter that may have Joey NMT but not regard, so it does not import
regard. Its protocol is that of worker.py: a number on standard input requests that many
updates; a line of JSON on standard output holds their measurements.

Beside Joey NMT's own keys the configuration may hold `batches`: the rows of each batch, epoch by
epoch. Its loop then takes these instead of batches of its own.
"""

import importlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, runtime_checkable
from unittest.mock import MagicMock

import torch

UNUSED = (
    "importlib_metadata",
    "matplotlib",
    "matplotlib.backends.backend_pdf",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "sacrebleu.metrics",
    "sentencepiece",
    "subword_nmt",
    "torch.utils.tensorboard",
    "tqdm",
    "yaml",
)
"""Packages that Joey NMT imports for plots, logs and scores; a training step needs none."""


@runtime_checkable
class Meter(Protocol):
    """How memory is counted, and how to wait for work that is under way."""

    def settle(self) -> None:
        """Wait until all is done."""

    @property
    def peak_bytes(self) -> int:
        """The most that was taken so far."""


class ProcessMeter:
    """Resident memory beyond what the process held when the meter was made."""

    def __init__(self) -> None:
        self.before = resident("VmRSS")

    def settle(self) -> None:
        """The CPU runs no asynchronous work to wait for."""

    @property
    def peak_bytes(self) -> int:
        """How far resident memory has risen."""
        return resident("VmHWM") - self.before


class GpuMeter:
    """What torch has reserved on the GPU."""

    def settle(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize()

    @property
    def peak_bytes(self) -> int:
        """The most that was reserved."""
        return torch.cuda.max_memory_reserved()


METERS: Mapping[str, Callable[[], Meter]] = {"cpu": ProcessMeter, "cuda": GpuMeter}


class Asked:
    """Counts the requested updates, and waits for the next request after them."""

    def __init__(self, out: io.TextIOBase, meter: Meter, parameters: int = 0) -> None:
        self.out, self.meter, self.parameters = out, meter, parameters
        self.left, self.tokens, self.start, self.loss = 0, 0, 0.0, 0.0

    def wait(self) -> None:
        """Once all requested updates are done, report them and wait for the next number."""
        if self.left:
            return
        if self.tokens:
            self.meter.settle()
            said = {
                "tokens": self.tokens,
                "seconds": time.perf_counter() - self.start,
                "loss": self.loss,
                "peak_bytes": self.meter.peak_bytes,
                "parameters": self.parameters,
            }
            self.out.write(json.dumps(said) + "\n")
            self.out.flush()
        asked = sys.stdin.readline()
        if not asked.strip():
            os._exit(0)
        self.left, self.tokens, self.start = int(asked), 0, time.perf_counter()

    def count(self, tokens: int, loss: float) -> None:
        """Count one more update."""
        self.left, self.tokens, self.loss = self.left - 1, self.tokens + tokens, loss


class GivenBatches:
    """A sampler of given batches; the first epoch follows the last.

    It replaces Joey NMT's sampler; reading, padding and loading stay Joey NMT's own.
    """

    epochs: ClassVar[list[list[list[int]]]] = []
    """The rows of each batch of each epoch."""

    def __init__(self, sampler: object, batch_size: int, drop_last: bool, seed: int) -> None:
        self.epoch = -1

    def set_seed(self, seed: int) -> None:
        """Joey NMT's loop calls this before each epoch; given batches need no seed."""

    def __iter__(self) -> Iterator[list[int]]:
        self.epoch += 1
        return iter(self.epochs[self.epoch % len(self.epochs)])


def resident(field: str) -> int:
    """Bytes of this process by /proc; 0 where there is none."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(x for x in status.read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def entropy(smoothing: float, n_tokens: int) -> float:
    """The term that turns Joey NMT's loss into a cross-entropy: its smoothed target's entropy.

    >>> entropy(0.0, 10)
    0.0
    """
    if smoothing == 0.0:
        return 0.0
    each = smoothing / (n_tokens - 2)
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(each)


def do_without(names: tuple[str, ...] = UNUSED) -> list[str]:
    """Replace modules that cannot be imported by empty ones, and return their names."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = empty = MagicMock(name=name)
            empty.__spec__ = ModuleSpec(name, None)
            missing.append(name)
    return missing


def main(path: Path) -> None:
    """Build everything as Joey NMT does, then train on request."""
    # output of the libraries goes to standard error, so that it does not mix with the answers
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    do_without()
    config, prediction, training = (
        importlib.import_module(f"joeynmt.{name}") for name in ("config", "prediction", "training")
    )
    asked_for = json.loads(path.read_text())
    args = config.parse_global_args(asked_for, rank=0, mode="train")
    meter = METERS[args.device.type]()
    model, train_data, _, _ = prediction.prepare(args, rank=0, mode="train")
    trainer = training.TrainManager(
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        n_gpu=args.n_gpu,
        rank=0,
        num_workers=args.num_workers,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=config.set_validation_args(args.test),
    )
    if "batches" in asked_for:
        GivenBatches.epochs = asked_for["batches"]
        datasets: Any = importlib.import_module("joeynmt.datasets")
        datasets.TokenBatchSampler = GivenBatches
    asked = Asked(out, meter, sum(each.numel() for each in model.parameters()))
    step, lacking = trainer._train_step, entropy(args.train.label_smoothing, len(model.trg_vocab))

    def paused(batch: Any) -> tuple[float, int]:
        asked.wait()
        loss, right = step(batch)
        asked.count(int(batch.ntokens), loss + lacking)
        return loss, right

    trainer._train_step = paused
    # the loop sets a seed on its validation data, which are never read
    trainer.train_and_validate(train_data=train_data, valid_data=SimpleNamespace())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
