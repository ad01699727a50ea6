"""metrics.jsonl: every update and every validation, one JSON object a line; TensorBoard too.

TensorBoard's files are written beside it, into `tensorboard/`, if its package is installed.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from regard.errors import RunError
from regard.training.checkpoints import write_text
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
        kept = [line for line in lines(self.path) if json.loads(line)["step"] <= step]
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


def lines(path: Path) -> list[str]:
    """The complete lines of a file that a kill may have cut short."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
