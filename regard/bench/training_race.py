"""Training as a race of processes: regard beside Joey NMT and Hugging Face's Marian.

On the CPU in float32. On a GPU regard's products are made in bfloat16, Joey NMT's in float16, the
only half precision that it has. There regard's updates are recorded for each shape of batch, so
that it runs some epochs before anything is measured, as in a training of dozens.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.bench.contestants import epoch_rows
from regard.bench.race import (
    Course,
    Plan,
    Round,
    joeynmt_command,
    own_command,
    race,
    ratio,
)
from regard.bench.sentences import english_german, write_for_joeynmt
from regard.bench.sizes import Size
from regard.data.corpus import Corpus
from regard.errors import MissingExtra

PRECISIONS: Mapping[str, str] = {"cpu": "float32", "cuda": "bfloat16 (Joey NMT float16)"}
PLANS: Mapping[str, Plan] = {"cpu": Plan(), "cuda": Plan(updates=40, rounds=5, warm_up=40)}
WARM_EPOCHS: Mapping[str, int] = {"cpu": 0, "cuda": 8}
"""Epochs that regard runs before it is measured."""
GIVEN_EPOCHS = 8
"""How many epochs of regard's batches a peer is given; then they come again."""


@dataclass(frozen=True)
class Setting:
    """The settings from which a peer's command is made."""

    corpus: Corpus
    size: Size
    folder: Path
    """A folder for its files."""
    joeynmt_python: Path | None = None
    device: str = "cpu"


def _marian(setting: Setting) -> list[str]:
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtra(
            "bench train: the peer 'marian' needs transformers. Install it with pip install "
            "'regard[bench]', or name other --peers."
        )
    return own_command("marian", setting.corpus.path, setting.size, setting.device)


def _joeynmt(setting: Setting) -> list[str]:
    written = write_for_joeynmt(
        setting.corpus, setting.size, setting.folder / "joeynmt", device=setting.device
    )
    return joeynmt_command(setting.joeynmt_python, written)


def _joeynmt_same_batches(setting: Setting) -> list[str]:
    epochs = [epoch_rows(setting.corpus, setting.size, epoch) for epoch in range(GIVEN_EPOCHS)]
    out = setting.folder / "joeynmt_same_batches"
    written = write_for_joeynmt(
        setting.corpus, setting.size, out, device=setting.device, epochs=epochs
    )
    return joeynmt_command(setting.joeynmt_python, written)


PEERS: Mapping[str, Callable[[Setting], list[str]]] = {
    "joeynmt": _joeynmt,
    "joeynmt_same_batches": _joeynmt_same_batches,
    "marian": _marian,
}
"""The peers that can race with regard; Joey NMT on batches of its own, or on regard's."""


def race_report(
    data: Path | None,
    *,
    size: Size,
    peers: Sequence[str],
    seconds: float | int,
    threads: int,
    device: str = "cpu",
    joeynmt_python: Path | None = None,
    each_round: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Measure, and give rows with ratios to regard."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = english_german(data, Path(folder) / "corpus", size=size.n_tokens)
        setting = Setting(corpus, size, Path(folder), joeynmt_python, device)
        commands = {"regard": own_command("regard", corpus.path, size, device)}
        commands |= {name: PEERS[name](setting) for name in peers}
        warm_up = WARM_EPOCHS[device] * len(epoch_rows(corpus, size, 0))
        plan = replace(PLANS[device], warm_up_of_regard=warm_up)
        courses = race(
            commands,
            n_tokens=size.n_tokens,
            seconds=seconds,
            threads=threads,
            plan=plan,
            each_round=each_round,
        )
    return {
        "precision": PRECISIONS[device],
        "threads": threads,
        "batch_tokens": size.batch_tokens,
        "model": size.model,
        "size": asdict(size),
        "described": size.described,
        "plan": asdict(plan),
        "rows": [_row(name, course, courses["regard"]) for name, course in courses.items()],
    }


def _row(name: str, course: Course, regard: Course) -> dict[str, object]:
    last = course.rounds[-1]
    return {
        "name": name,
        "tokens_per_second": course.speed,
        "peak_bytes": last.peak_bytes,
        "parameters": last.parameters,
        "regard_is_faster": ratio(regard, course),
        "regard_memory": _share(regard.rounds[-1], last),
        "first_loss": course.first.loss,
        "last_loss": last.loss,
        "rounds": len(course.rounds),
        "problem": course.problem,
    }


def _share(regard: Round, other: Round) -> float | None:
    return regard.peak_bytes / other.peak_bytes if other.peak_bytes else None
