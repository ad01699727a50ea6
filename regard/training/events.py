"""Events: the messages of a training while it runs, for people and for programs.

`record` gives an event as `metrics.jsonl` and `--json` have it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.hardware.threads import Threads
from regard.tasks.samples import Sample
from regard.training.checkpoints import Progress

Fact = float | int | str | bool
PRINTED: Mapping[str, tuple[str, int]] = {
    "exact_match": ("exact match", 4),
    "accuracy": ("accuracy", 4),
    "rouge_l": ("ROUGE-L", 2),
    "bleu": ("BLEU", 2),
}
"""The printed name of each score of decoded answers, and its decimal places."""


@dataclass(frozen=True)
class Notice:
    """A sentence for the user."""

    text: str


@dataclass(frozen=True)
class ChosenThreads:
    """How many threads a training on a CPU takes, and why."""

    threads: Threads

    @property
    def text(self) -> str:
        """A sentence for the user."""
        return f"on {self.threads}"

    def record(self) -> dict[str, Fact]:
        """The number, the reason, and the time of an update on each number that was tried."""
        tried = {f"seconds_with_{count}": round(s, 5) for count, s in self.threads.seconds.items()}
        return {"threads": self.threads.count, "reason": self.threads.reason, **tried}


@dataclass(frozen=True)
class Step:
    """The results of one update."""

    progress: Progress
    """The progress after it."""
    loss: Tensor | float
    """As `nll`, but maybe still on its way from a GPU: reading it waits for the update."""
    learning_rate: float
    norm: Tensor | float
    """As `gradient_norm`, but maybe still on its way."""
    source_tokens: int
    target_tokens: int
    seconds: float
    splits: int = 0
    """How often a batch was cut in two, since it did not fit into memory."""
    is_skipped: bool = False
    """Whether the gradient overflowed float16, so that the weights stayed as they were."""
    of: int = 0
    """How many updates the training has."""

    @property
    def nll(self) -> float:
        """Negative log-likelihood per token that counts, without smoothing, before the update."""
        return float(self.loss)

    @property
    def gradient_norm(self) -> float:
        """The length of the gradient, before it was shortened."""
        return float(self.norm)

    def record(self) -> dict[str, Fact]:
        """The update in numbers."""
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "train_loss": self.nll,
            "learning_rate": self.learning_rate,
            "gradient_norm": self.gradient_norm,
            "target_tokens": self.progress.target_tokens,
            "target_tokens_per_second": round(self.target_tokens / self.seconds, 1),
            "source_tokens_per_second": round(self.source_tokens / self.seconds, 1),
            "splits": self.splits,
            "seconds": round(self.seconds, 4),
            **({"skipped": 1} if self.is_skipped else {}),
        }


@dataclass(frozen=True)
class Validated:
    """The scores of the model on examples it never learned from."""

    step: int
    loss: float
    exact_match: float | None
    """Exact match of greedily decoded texts; None if none are decoded, as with hidden words."""
    is_best: bool
    bleu: float | None = None
    signature: str | None = None
    """How BLEU was computed, if the recipe asks for it."""
    decoded_examples: int | None = None
    """How many examples were decoded; None if none are."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Other scores of the decoded answers, by their keys: "accuracy", "rouge_l"."""
    per_character: float | None = None
    """The loss per character of the target texts, which no choice of sub-words changes."""
    seconds: float = 0.0
    samples: tuple[Sample, ...] = ()
    """The answers to a few fixed examples, and what they looked at."""

    def record(self) -> dict[str, Fact]:
        """The validation in those numbers that were measured."""
        row = {
            "step": self.step,
            "valid_loss": self.loss,
            "exact_match": self.exact_match,
            "valid_loss_per_character": self.per_character,
            "bleu": self.bleu,
            "bleu_signature": self.signature,
            **self.scores,
            "decoded_examples": self.decoded_examples,
            "is_best": self.is_best,
            "seconds": round(self.seconds, 4),
        }
        return {name: value for name, value in row.items() if value is not None}

    def sample_records(self) -> list[dict[str, Any]]:
        """The samples as `samples.jsonl` and `--json` have them."""
        return [
            {"step": self.step, "example": number, **one.record()}
            for number, one in enumerate(self.samples, 1)
        ]

    def matched(self) -> str:
        """The end of a line about the validation: the scores of its answers, if it has some."""
        others = {**self.scores} if self.bleu is None else {**self.scores, "bleu": self.bleu}
        exact = {} if self.exact_match is None else {"exact_match": self.exact_match}
        return "".join(
            f", {PRINTED[key][0]} {value:.{PRINTED[key][1]}f}"
            for key, value in {**exact, **others}.items()
        )


@dataclass(frozen=True)
class Finished:
    """The end, or a stop before it."""

    path: Path
    progress: Progress
    is_complete: bool

    def record(self) -> dict[str, Fact]:
        """The end, for programs."""
        return {"step": self.progress.step, "run": str(self.path), "is_complete": self.is_complete}


Event = Notice | ChosenThreads | Step | Validated | Finished


def finite(value: Any) -> Any:
    """The value as JSON can hold it: None for an infinite or undefined number."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
