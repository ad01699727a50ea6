"""Trainings side by side, each in a process of its own, for the comparisons of this folder.

A process does one piece of work and prints what it found as a line of JSON; lines are added to a
file as they come, so that a kill loses only what was under way. What the file has is not done
again.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.hardware.hardware import Hardware
from regard.recipes.recipe import Recipe
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS

ROOT = Path(__file__).parent.parent
LAST = 4
"""How many words of a piece of work are printed."""

Work = Sequence[str]
"""What one process is to do: the words behind the name of Python."""


def recording(device: str | None) -> Hardware:
    """A GPU where there is one, uncompiled: for so short a training recordings do."""
    plain = Hardware.chosen(device, None, compiles=False)
    return Hardware(plain.device, plain.precision, replays=plain.device.type == "cuda")


def exact(device: str | None) -> Hardware:
    """Products in float32, and every kernel called by hand: for small models."""
    return Hardware.chosen(device, "float32", compiles=False)


def device_name(hardware: Hardware) -> str:
    """What a GPU calls itself; the CPU has no name."""
    is_gpu = hardware.device.type == "cuda"
    return torch.cuda.get_device_name(hardware.device) if is_gpu else str(hardware.device)


def prepared_once(recipe: Recipe, folder: Path) -> Path:
    """Sub-words and corpora of a recipe, made if they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    prepare(recipe, folder, SINGLE_PROCESS)
    return folder


def given_to(prepared: Path, out: Path) -> None:
    """Give a run that is still to begin what was prepared; if nothing was, it prepares itself."""
    if prepared.exists() and not out.exists():
        shutil.copytree(prepared, out)


class History(NamedTuple):
    """What a run has been through, before and after it was resumed."""

    losses: list[tuple[int, float]]
    """Validation losses by update."""
    target_tokens: int
    """That it has learned from."""


def history_of(run: Path) -> History:
    """Read from its metrics; an update that was made again counts once."""
    rows = rows_of(run / "metrics.jsonl")
    losses = {row["step"]: row["valid_loss"] for row in rows if "valid_loss" in row}
    tokens = {row["step"]: row["target_tokens"] for row in rows if "target_tokens" in row}
    return History(sorted(losses.items()), tokens[max(tokens)])


def rows_of(results: Path) -> list[dict[str, Any]]:
    """The lines that are there; the last may have been cut by a kill."""
    lines = results.read_text().splitlines(keepends=True) if results.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def side_by_side(work: Sequence[Work], results: Path, *, at_once: int, seconds: float) -> None:
    """Do the work in this order, some at once, and add what is found to a file.

    Args:
        work: the words of each piece.
        results: where lines are added.
        at_once: processes at a time.
        seconds: after which nothing is waited for any more.
    """
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(at_once) as pool, results.open("a") as file:
        for job in as_completed([pool.submit(_in_a_process, words, end) for words in work]):
            file.write(job.result())
            file.flush()


def _in_a_process(words: Work, end: float) -> str:
    """The lines that it printed; a word on standard error about how it went."""
    start, own = time.monotonic(), {"OMP_NUM_THREADS": "1", **os.environ}
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True,
            check=False, timeout=max(0.0, end - start) if math.isfinite(end) else None,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        _say(words, "is left out: there is no time")
        return ""
    how = f"ended with {done.returncode}" if done.returncode else "is done"
    _say(words, f"{how} after {time.monotonic() - start:.0f} s")
    return "" if done.returncode else done.stdout


def _say(words: Work, what: str) -> None:
    # what differs from piece to piece stands last
    print(f"{' '.join(words[-LAST:])} {what}", file=sys.stderr, flush=True)
