"""Contestants in turn: each runs a few updates, then the next; speed is compared round by round.

Machines are noisy, and the noise lasts longer than a round. So ratios are taken within each round,
where both had the same noise, and the median of the ratios is reported.
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from regard.bench.runner import Runner
from regard.bench.sizes import Size
from regard.errors import MissingExtra, SettingError

NEAR = 1.0
"""How far from ln V, in nats, a first loss may lie."""


@dataclass(frozen=True)
class Plan:
    """How long a race is."""

    updates: int = 4
    """Of a round."""
    rounds: int = 3
    """At least."""
    warm_up: int = 1
    """Updates of each contestant, after its first, that are not measured."""
    warm_up_of_regard: int = 0
    """More of them for regard, which records the work of every shape of batch on a GPU."""


@dataclass(frozen=True)
class Round:
    """The measurements of one contestant in one round."""

    tokens: int
    seconds: float
    loss: float
    """Of the last update, per token."""
    peak_bytes: int
    """The most memory that was taken so far."""
    parameters: int = 0

    @property
    def speed(self) -> float:
        """Target tokens a second, padding not counted."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Course:
    """All that one contestant did."""

    first: Round
    """One update, before anything is measured."""
    rounds: tuple[Round, ...]
    n_tokens: int

    @property
    def speed(self) -> float:
        """The median over the rounds."""
        return median(each.speed for each in self.rounds)

    @property
    def problem(self) -> str | None:
        """The reason why the speed is meaningless, if there is one."""
        return loss_problem(self.first.loss, self.rounds[-1].loss, self.n_tokens)


def loss_problem(first: float, last: float, n_tokens: int) -> str | None:
    """The reason why a speed is meaningless: a loss that does not begin near ln V or does not fall.

    >>> loss_problem(9.2, 9.3, 8000)
    'wrong: the loss goes from 9.20 to 9.30'
    """
    uniform = math.log(n_tokens)
    if abs(first - uniform) > NEAR:
        return f"wrong: the loss begins at {first:.2f}, not near {uniform:.2f}"
    return None if last < first else f"wrong: the loss goes from {first:.2f} to {last:.2f}"


def race(
    commands: Mapping[str, Sequence[str]],
    *,
    n_tokens: int,
    seconds: float | int,
    threads: int,
    plan: Plan = Plan(),
    each_round: Callable[[float], None] = lambda share: None,
) -> dict[str, Course]:
    """Run all contestants in turn for `seconds`, and at least for the plan's rounds.

    Args:
        commands: how to start each contestant.
        n_tokens: size of the vocabulary.
        seconds: how long to go on measuring.
        threads: how many each may use.
        plan: how many updates and rounds.
        each_round: called with the share of the time that has passed.
    """
    with ExitStack() as stack:
        runners = {
            name: stack.enter_context(Runner(name, command, threads))
            for name, command in commands.items()
        }
        # the first updates load kernels and fill caches, and show where each loss begins
        first = {name: _run(runner, 1) for name, runner in runners.items()}
        for name, runner in runners.items():
            _run(runner, plan.warm_up + plan.warm_up_of_regard * (name == "regard"))
        rounds: dict[str, list[Round]] = {name: [] for name in runners}
        start, number = time.perf_counter(), 0
        while number < plan.rounds or time.perf_counter() - start < seconds:
            for name, runner in runners.items():
                rounds[name].append(_run(runner, plan.updates))
            number += 1
            each_round(min(1.0, (time.perf_counter() - start) / max(seconds, 1e-9)))
    return {name: Course(first[name], tuple(rounds[name]), n_tokens) for name in runners}


def _run(runner: Runner, updates: int) -> Round:
    return Round(**runner.ask(updates))


def ratio(one: Course, other: Course) -> float:
    """How many times as fast one was: the median over the rounds."""
    return median(a.speed / b.speed for a, b in zip(one.rounds, other.rounds, strict=True))


def own_command(name: str, corpus: Path, size: Size, device: str = "cpu") -> list[str]:
    """How to start a contestant that this interpreter can run."""
    module, given = "regard.bench.worker", json.dumps(asdict(size))
    return [sys.executable, "-m", module, name, str(corpus), size.model, given, device]


def joeynmt_command(python: Path | None, configuration: Path) -> list[str]:
    """How to start Joey NMT, in this interpreter or in another."""
    if python is not None and not python.is_file():
        raise SettingError(f"bench train: --joeynmt-python: there is no interpreter '{python}'.")
    interpreter = str(python or sys.executable)
    found = subprocess.run([interpreter, "-c", "import joeynmt"], capture_output=True, check=False)
    if found.returncode:
        raise MissingExtra(
            f"bench train: the peer 'joeynmt' cannot be imported by '{interpreter}'. Install it "
            "with pip install joeynmt importlib_metadata in an environment of its own, named by "
            "--joeynmt-python, or name other --peers."
        )
    return [interpreter, str(Path(__file__).with_name("joeynmt_worker.py")), str(configuration)]
