"""The contests of `regard bench train`: a kind of model on a kind of device, with its peers.

    python -c "from regard.bench.contests import main; main()" MODEL MULTI30K [SECONDS]

does what the verb does, on a GPU where there is one, without the command line's packages.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.bench.environment import environment, versions
from regard.bench.sizes import LSTM, LSTM_ON_A_GPU, SMALL, Size
from regard.bench.training_gpu import gpu_report
from regard.bench.training_race import race_report
from regard.bench.training_report import training_text
from regard.choices import find
from regard.hardware.hardware import Hardware

PACKAGES = ["transformers", "joeynmt", "tokenizers", "numpy"]


@dataclass(frozen=True)
class ContestSettings:
    """The settings of a contest that the caller chose."""

    data: Path | None
    """Multi30k's folder."""
    device: torch.device
    peers: Sequence[str]
    seconds: float | int = 120.0
    """How long a race goes on."""
    threads: int = 1
    joeynmt_python: Path | None = None
    each_share: Callable[[float], None] = lambda share: None
    """Called with the share of the work that is done."""


@dataclass(frozen=True)
class Contest:
    """The peers that can take part, and the function that measures them."""

    peers: tuple[str, ...]
    measure: Callable[[ContestSettings], dict[str, Any]]

    def report(self, settings: ContestSettings) -> dict[str, Any]:
        """The measurements, with the environment in which they were made."""
        where = environment(settings.device)
        return {**where, "packages": versions(PACKAGES), **self.measure(settings)}


def _race(size: Size) -> Callable[[ContestSettings], dict[str, Any]]:
    def measure(settings: ContestSettings) -> dict[str, Any]:
        return race_report(
            settings.data,
            size=size,
            peers=settings.peers,
            seconds=settings.seconds,
            threads=settings.threads,
            device=settings.device.type,
            joeynmt_python=settings.joeynmt_python,
            each_round=settings.each_share,
        )

    return measure


def _base(settings: ContestSettings) -> dict[str, Any]:
    return gpu_report(
        settings.data, device=settings.device, peers=settings.peers, each_part=settings.each_share
    )


JOEYNMT = ("joeynmt", "joeynmt_same_batches")

CONTESTS: Mapping[str, Mapping[str, Contest]] = {
    "transformer": {
        "cpu": Contest((*JOEYNMT, "marian"), _race(SMALL)),
        "cuda": Contest(("marian",), _base),
    },
    "recurrent": {
        "cpu": Contest(JOEYNMT, _race(LSTM)),
        "cuda": Contest(JOEYNMT, _race(LSTM_ON_A_GPU)),
    },
}
"""The contests by `--model` and kind of device."""


def main() -> None:
    """Measure on this machine and print table and JSON."""
    model, data, *seconds = sys.argv[1:]
    device = Hardware.chosen(None, None).device
    contest = find(model, CONTESTS)[device.type]
    settings = ContestSettings(
        Path(data),
        device,
        contest.peers,
        seconds=float(seconds[0]) if seconds else 120.0,
        threads=torch.get_num_threads(),
    )
    report = contest.report(settings)
    print(training_text(report))
    print(json.dumps(report))
