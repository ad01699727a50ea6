"""Joey NMT's own training loop, run a few updates at a time for whoever asks.

    python joeynmt_worker.py CONFIGURATION

Run as a file, by an interpreter that may have Joey NMT and nothing of ours, so this module imports
nothing of ours either. It speaks as worker.py does: a number on standard input asks for that many
updates; a line of JSON on standard output says what they took.
"""

import importlib
import io
import json
import math
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Asked:
    """Counts the updates that were asked for, and waits between them."""

    def __init__(self, out: io.TextIOBase, before_bytes: int) -> None:
        self.out, self.before_bytes = out, before_bytes
        self.left, self.tokens, self.start, self.loss = 0, 0, 0.0, 0.0

    def wait(self) -> None:
        """Report what was done if all of it is, and wait for the next number."""
        if self.left:
            return
        if self.tokens:
            said = {
                "tokens": self.tokens,
                "seconds": time.perf_counter() - self.start,
                "loss": self.loss,
                "peak_bytes": resident("VmHWM") - self.before_bytes,
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


def main(path: Path) -> None:
    """Build everything as Joey NMT does, then train when asked."""
    # what the libraries print must not mix with what is said here
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    config, prediction, training = (
        importlib.import_module(f"joeynmt.{name}") for name in ("config", "prediction", "training")
    )
    asked = Asked(out, resident("VmRSS"))
    args = config.parse_global_args(json.loads(path.read_text()), rank=0, mode="train")
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
