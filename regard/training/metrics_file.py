"""metrics.jsonl: every update and every validation, one JSON object a line; TensorBoard too.

TensorBoard's files are written beside it, into `tensorboard/`, if its package is installed.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

from regard.data.atomic_writes import write_text
from regard.data.regular_files import Unreadable, decoded, parse_json, read_bytes
from regard.errors import RunError
from regard.training.events import (
    Event,
    Fact,
    Validated,
    finite,
    step_record,
    validated_record,
)
from regard.training.loop import Step

SECONDS = 1.0
"""How long updates may wait until they are written."""


@runtime_checkable
class Board(Protocol):
    """What of TensorBoard's writer is used."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Write one number."""

    def close(self) -> None:
        """Write what is left."""


def open_board(folder: Path, step: int) -> Board | None:
    """TensorBoard's writer, going on behind a step; None where it is not installed."""
    if find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


@final
class Metrics:
    """The numbers of a run.

    Args:
        run: its directory.
        open_board: how TensorBoard's writer is opened.
    """

    def __init__(
        self, run: Path, open_board: Callable[[Path, int], Board | None] = open_board
    ) -> None:
        self.run, self.path = run, run / "metrics.jsonl"
        self.open_board = open_board
        self.board: Board | None = None
        self.waiting: list[Step] = []
        self.last = time.monotonic()

    def go_on(self, step: int) -> None:
        """Forget what came after a step, which is trained again."""
        kept = [line for line, row in _read(self.path) if row["step"] <= step]
        write_text(self.path, "".join(kept))
        self.board = self.open_board(self.run / "tensorboard", step)

    def record(self, event: Event) -> None:
        """Write what an event has to say in numbers; updates once a second.

        To read an update's loss is to wait for it, and a GPU would stand idle meanwhile.
        """
        if isinstance(event, Step):
            self.waiting.append(event)
            if time.monotonic() - self.last >= SECONDS:
                self.flush()
        elif isinstance(event, Validated):
            self.flush()
            self._write([validated_record(event)])

    def flush(self) -> None:
        """Write the updates that wait."""
        steps, self.waiting, self.last = self.waiting, [], time.monotonic()
        self._write([step_record(step) for step in steps])
        for step in steps:
            if not math.isfinite(step.nll + step.gradient_norm):
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
"""What a model that ran away leaves as null."""


def lines(path: Path) -> list[str]:
    """The lines of a `metrics.jsonl`, up to one that a kill has cut short; each is a row of it."""
    return [line for line, _ in _read(path)]


def rows(path: Path) -> list[dict[str, Any]]:
    """What the lines of a `metrics.jsonl` say."""
    return [row for _, row in _read(path)]


def _read(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each whole line, and what it says."""
    if not path.exists():
        return []
    try:
        whole, _, _ = read_bytes(path).rpartition(b"\n")
    except Unreadable as error:
        raise _damaged(f"'{path}' {error}") from error
    return [_line(path, number, line) for number, line in enumerate(whole.split(b"\n"), 1) if whole]


def _line(path: Path, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        text = decoded(line)
        row = parse_json(text)
        _check_row(row)
    except Unreadable as error:
        raise _damaged(f"'{path}', line {number} {error}") from error
    return text + "\n", row


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


def _damaged(what: str) -> RunError:
    return RunError(
        f"metrics: {what}. Put back a whole copy, or delete the line or the file: only curves and "
        "the card lose what it holds."
    )
