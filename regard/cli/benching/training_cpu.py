"""Training on the CPU, in float32: regard beside Joey NMT and Hugging Face's Marian."""

import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.benching.race import (
    Course,
    Round,
    joeynmt_command,
    own_command,
    race,
    ratio,
)
from regard.cli.benching.sentences import english_german, write_for_joeynmt
from regard.cli.benching.sizes import BATCH_TOKENS, SMALL, Size
from regard.data.corpus import Corpus
from regard.errors import MissingExtra


@dataclass(frozen=True)
class Setting:
    """What a peer's command is made from."""

    corpus: Corpus
    size: Size
    folder: Path
    """Where it may write."""
    joeynmt_python: Path | None


def _marian(setting: Setting) -> list[str]:
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtra(
            "bench train: the peer 'marian' needs transformers. Install it with pip install "
            "'regard[bench]', or name other --peers."
        )
    return own_command("marian", setting.corpus.path, setting.size)


def _joeynmt(setting: Setting) -> list[str]:
    written = write_for_joeynmt(setting.corpus, setting.size, setting.folder / "joeynmt")
    return joeynmt_command(setting.joeynmt_python, written)


PEERS: Mapping[str, Callable[[Setting], list[str]]] = {"joeynmt": _joeynmt, "marian": _marian}


def cpu_report(
    data: Path | None,
    *,
    peers: Sequence[str],
    seconds: float | int,
    threads: int,
    joeynmt_python: Path | None = None,
    size: Size = SMALL,
    each_round: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Measure, and give rows with ratios to regard."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = english_german(data, Path(folder) / "corpus", size=size.n_tokens)
        setting = Setting(corpus, size, Path(folder), joeynmt_python)
        commands = {"regard": own_command("regard", corpus.path, size)}
        commands |= {name: PEERS[name](setting) for name in peers}
        courses = race(
            commands,
            n_tokens=size.n_tokens,
            seconds=seconds,
            threads=threads,
            each_round=each_round,
        )
    return {
        "precision": "float32",
        "threads": threads,
        "batch_tokens": BATCH_TOKENS,
        "size": size.__dict__,
        "rows": [_row(name, course, courses["regard"]) for name, course in courses.items()],
    }


def _row(name: str, course: Course, regard: Course) -> dict[str, object]:
    last = course.rounds[-1]
    return {
        "name": name,
        "tokens_per_second": course.speed,
        "peak_bytes": last.peak_bytes,
        "regard_is_faster": ratio(regard, course),
        "regard_memory": _share(regard.rounds[-1], last),
        "first_loss": course.first.loss,
        "last_loss": last.loss,
        "rounds": len(course.rounds),
        "problem": course.problem,
    }


def _share(regard: Round, other: Round) -> float | None:
    return regard.peak_bytes / other.peak_bytes if other.peak_bytes else None
