"""Metrics file: writes updates and validations to metrics.jsonl, one JSON object a line.

The answers to a few examples at each validation stand in samples.jsonl, a line for each.
TensorBoard's files are written beside it, into `tensorboard/`, if its package is installed.
"""

import json
import math
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from regard.data.atomic_writes import write_text
from regard.data.files import Unreadable, decoded, parse_json, read_bytes
from regard.errors import RunError
from regard.training.events import Event, Fact, Step, Validated, finite

MAX_DELAY_S = 1.0
"""How long updates may wait until they are written."""


def open_board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, continuing after a step; None if it is not installed."""
    if find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


@final
class Metrics:
    """The numbers of the run in a directory."""

    def __init__(self, run: Path) -> None:
        self.run, self.path, self.samples = run, run / "metrics.jsonl", run / "samples.jsonl"
        self.board: Any = None
        self.waiting: list[Step] = []
        self.last = time.monotonic()

    def go_on(self, step: int) -> None:
        """Delete the rows after a step, which is trained again, and open TensorBoard's writer."""
        before = (line for line, row in _read(self.path) if row["step"] <= step)
        write_text(self.path, "".join(before))
        if self.samples.exists():
            kept = [row for row in sample_rows(self.run) if row["step"] <= step]
            write_text(self.samples, _lines(kept))
        self.board = open_board(self.run / "tensorboard", step)

    def record(self, event: Event) -> None:
        """Write an event's numbers; those of updates once a second.

        Reading an update's loss waits for the update, and a GPU would stand idle meanwhile.
        """
        if isinstance(event, Step):
            self.waiting.append(event)
            if time.monotonic() - self.last >= MAX_DELAY_S:
                self.flush()
        elif isinstance(event, Validated):
            self.flush()
            self._write([event.record()])
            if event.samples:
                with self.samples.open("a", encoding="utf-8") as file:
                    file.write(_lines(event.sample_records()))

    def flush(self) -> None:
        """Write the updates that wait."""
        steps, self.waiting, self.last = self.waiting, [], time.monotonic()
        self._write([step.record() for step in steps])
        for step in steps:
            if not step.is_skipped and not math.isfinite(step.nll + step.gradient_norm):
                raise RunError(
                    f"training: at step {step.progress.step} the loss is {step.nll} and the "
                    f"gradient {step.gradient_norm}, with a learning rate of "
                    f"{step.learning_rate:.2g}: it ran away. Lower training.learning_rate, raise "
                    "training.warmup_steps or lower training.clip_norm; where it is so from the "
                    "first step, the model itself makes such numbers: change its norm or size."
                )

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        if self.board is not None:
            self.board.close()

    def _write(self, rows: Sequence[dict[str, Fact]]) -> None:
        if not rows:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(finite(row)) + "\n" for row in rows))
        if self.board is not None:
            for row in rows:
                for name, value in row.items():
                    if name != "step" and isinstance(value, float | int):
                        self.board.add_scalar(name, float(value), int(row["step"]))


SIGNATURE = "bleu_signature"
NULLS = frozenset({"train_loss", "gradient_norm", "valid_loss", "valid_loss_per_character"})
"""The numbers that a diverged model leaves as null."""


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`."""
    return [row for _, row in _read(path)]


def sample_rows(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's `samples.jsonl`; none if it has no such file, or a damaged one.

    A damaged file costs a look at the past and nothing else.
    """
    try:
        lines = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [parse_json(line) for line in lines]
    except (OSError, Unreadable, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict) and type(row.get("step")) is int]


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(finite(row), ensure_ascii=False) + "\n" for row in rows)


def _read(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each complete line, and its row."""
    if not path.exists():
        return []
    found, place = [], f"'{path}'"
    try:
        whole, _, _ = read_bytes(path).rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            place = f"'{path}', line {number}"
            text = decoded(line)
            row = parse_json(text)
            _check_row(row)
            found.append((text + "\n", row))
    except Unreadable as error:
        raise RunError(
            f"metrics: {place} {error}. Put back a whole copy, or delete the line or the file: "
            "only curves and the card lose what it holds."
        ) from error
    return found


def _check_row(row: Any) -> None:
    step = row.get("step") if isinstance(row, dict) else None
    if type(step) is not int or step < 0:
        raise Unreadable("must hold an object with a count as 'step'")
    for name, value in row.items():
        is_number = isinstance(value, float | int) and math.isfinite(value)
        if not is_number and name != SIGNATURE and not (value is None and name in NULLS):
            raise Unreadable(f"must hold a number as '{name}', got {repr(value)[:40]}")
    if ("bleu" in row or SIGNATURE in row) and type(row.get(SIGNATURE)) is not str:
        raise Unreadable(f"must hold a text as '{SIGNATURE}' beside 'bleu'")
