"""Decoding speed: regard, Hugging Face `generate` and CTranslate2 on the same weights, in turns.

Every answer has a fixed number of tokens, so that all write equally much. Each decoder is a process
of its own (decoding_worker.py), and only one works at a time. Ratios are taken within each turn,
where both had the same noise of the machine; the median of the ratios is reported.
"""

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor

from regard.bench.runner import Runner
from regard.errors import MissingExtra, SettingError
from regard.models import SIZES, Transformer, TransformerSpec, build_transformer
from regard.models.stepper import BOS, EOS, UNK

PACKAGES = {"huggingface": "transformers", "ctranslate2": "ctranslate2"}
"""The packages that each peer needs."""


@dataclass(frozen=True, kw_only=True)
class DecodingCase:
    """The decoded task; the defaults are the sizes of the project's own targets."""

    n_sentences: int = 64
    batch: int = 64
    """Sentences decoded at a time."""
    n_source: int = 24
    n_target: int = 24
    beam: int = 4
    n_tokens: int = 32768
    """Size of the vocabulary."""
    size: str = "base"
    device: str = "cpu"
    dtype: str = "float32"
    turns: int = 5
    peers: Sequence[str] = ("huggingface", "ctranslate2")
    threads: int = 1


@dataclass(frozen=True)
class DecodingResult:
    """Seconds of every turn, and how the answers compare."""

    case: DecodingCase
    seconds: Mapping[str, Sequence[float]]
    better_or_equal: Mapping[str, float] = field(default_factory=dict)
    """Share of sentences for which our answer is at least as likely as the peer's."""

    @property
    def tokens_per_s(self) -> dict[str, float]:
        """The median over the turns."""
        written = self.case.n_sentences * self.case.n_target
        return {name: written / median(seconds) for name, seconds in self.seconds.items()}

    def ratio(self, peer: str) -> float:
        """How many times as fast as the peer: the median over the turns."""
        turns = zip(self.seconds[peer], self.seconds["regard"], strict=True)
        return median(theirs / ours for theirs, ours in turns)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, speeds and ratios included."""
        ratio = {name: self.ratio(name) for name in self.seconds if name != "regard"}
        return {**asdict(self), "tokens_per_s": self.tokens_per_s, "ratio": ratio}


def decoding_text(result: DecodingResult) -> str:
    """A table as plain text."""
    case = result.case
    lines = [
        f"{case.size}, {case.n_tokens:,} tokens, {case.dtype} on {case.device}; {case.n_sentences} "
        f"sentences of {case.n_source} to {case.n_target} tokens, {case.batch} at a time, beam "
        f"{case.beam}.",
        "",
        f"{'':<14} {'tokens/s':>10} {'regard is':>10} {'as likely or more':>18}",
    ]
    for name, speed in result.tokens_per_s.items():
        ratio = "" if name == "regard" else f"{result.ratio(name):.2f} ×"
        share = result.better_or_equal.get(name)
        likely = "" if share is None else f"{100 * share:.1f} %"
        lines.append(f"{name:<14} {speed:>10,.0f} {ratio:>10} {likely:>18}")
    return "\n".join(lines)


def bench_decoding(
    case: DecodingCase, *, each_turn: Callable[[float], None] = lambda share: None
) -> DecodingResult:
    """Check that all decoders compute the same function, then measure them in turns.

    Args:
        case: what is decoded.
        each_turn: called with the share of the turns that are done.
    """
    for name in case.peers:
        _require(PACKAGES[name])
    given, names = json.dumps(asdict(case)), ["regard", *case.peers]
    command = [sys.executable, "-m", "regard.bench.decoding_worker"]
    with ExitStack() as stack:
        runners = {}
        for name in names:
            runners[name] = stack.enter_context(Runner(name, [*command, name, given], case.threads))
            # started one after another, so that no process is timed while another starts
            if problem := runners[name].ask("ready?")["problem"]:
                raise SettingError(problem)
        turns = []
        for number in range(case.turns):
            turns.append({name: runner.ask("decode") for name, runner in runners.items()})
            each_turn((number + 1) / case.turns)
    model, source = random_model(case), sources(case)
    scores = {name: _scored(model, source, turns[0][name]["answers"], case) for name in names}
    better = {
        name: float((scores["regard"] >= scores[name] - 1e-3).double().mean())
        for name in case.peers
    }
    seconds = {name: [turn[name]["seconds"] for turn in turns] for name in names}
    return DecodingResult(case, seconds, better)


def random_model(case: DecodingCase) -> Transformer:
    """A Transformer as the paper has it, with random weights, always the same ones."""
    torch.manual_seed(0)
    sizes = {"n_source_tokens": case.n_tokens, "n_target_tokens": case.n_tokens}
    return build_transformer(spec_of(case), **sizes).eval()


def spec_of(case: DecodingCase) -> TransformerSpec:
    """Sizes and choices of that Transformer."""
    return TransformerSpec(**SIZES[case.size])  # type: ignore[arg-type] # the spec checks the row


def sources(case: DecodingCase) -> Tensor:
    """The sentences, always the same ones; each ends with the end token, as those of a run do."""
    draws = torch.Generator().manual_seed(1)
    words = torch.randint(
        UNK + 1, case.n_tokens, (case.n_sentences, case.n_source - 1), generator=draws
    )
    return torch.cat([words, torch.full((case.n_sentences, 1), EOS)], 1)


def _require(package: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"bench: {package} is not installed. Run pip install 'regard[bench]', or leave it out."
        ) from error


@torch.inference_mode()
def _scored(
    model: Transformer, source: Tensor, rows: list[list[int]], case: DecodingCase
) -> Tensor:
    """The log-probability of each answer in float32 on the CPU, a few at a time."""
    target = torch.tensor([[BOS, *row][: case.n_target + 1] for row in rows])
    found = []
    for sources, targets in zip(source.split(8), target.split(8), strict=True):
        own = model(sources, targets[:, :-1]).log_softmax(-1)
        found.append(own.gather(2, targets[:, 1:, None]).sum((1, 2)))
    return torch.cat(found)
