"""Joey NMT's own training loop, run a few updates at a time for whoever asks.

    python joeynmt_worker.py CONFIGURATION

Run as a file, by an interpreter that may have Joey NMT and nothing of ours, so this module imports
nothing of ours either. It speaks as worker.py does: a number on standard input asks for that many
updates; a line of JSON on standard output says what they took.

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
"""What Joey NMT imports for plots, logs, scores and files, none of which a training step needs."""


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
        """Nothing is ever under way."""

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
    """Counts the updates that were asked for, and waits between them."""

    def __init__(self, out: io.TextIOBase, meter: Meter, parameters: int = 0) -> None:
        self.out, self.meter, self.parameters = out, meter, parameters
        self.left, self.tokens, self.start, self.loss = 0, 0, 0.0, 0.0

    def wait(self) -> None:
        """Report what was done if all of it is, and wait for the next number."""
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
        """One update more."""
        self.left, self.tokens, self.loss = self.left - 1, self.tokens + tokens, loss


class GivenBatches:
    """A sampler of batches that was told them; after the last epoch comes the first.

    It stands where Joey NMT's own would: what it reads, pads and loads stays its own.
    """

    epochs: ClassVar[list[list[list[int]]]] = []
    """The rows of each batch of each epoch."""

    def __init__(self, sampler: object, batch_size: int, drop_last: bool, seed: int) -> None:
        self.epoch = -1

    def set_seed(self, seed: int) -> None:
        """A new epoch begins, says Joey NMT's loop."""

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
    """What Joey NMT's loss lacks to be a cross-entropy: that of its smoothed target.

    >>> entropy(0.0, 10)
    0.0
    """
    if smoothing == 0.0:
        return 0.0
    each = smoothing / (n_tokens - 2)
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(each)


def do_without(names: tuple[str, ...] = UNUSED) -> list[str]:
    """Put empty modules where these cannot be imported; their names come back."""
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
    """Build everything as Joey NMT does, then train when asked."""
    # what the libraries print must not mix with what is said here
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
