"""Events: what a training says while it goes on, for people and for programs."""

import math
from dataclasses import dataclass
from pathlib import Path

from regard.training.checkpoints import Progress
from regard.training.loop import Step

Fact = float | int | str | bool


@dataclass(frozen=True)
class Notice:
    """Something a person should know."""

    text: str


@dataclass(frozen=True)
class Validated:
    """What the model can do on examples it never learned from."""

    step: int
    loss: float
    exact_match: float | None
    """Of texts decoded greedily; None where nothing is asked in them, as by hidden words."""
    is_best: bool
    bleu: float | None = None
    """If the recipe asks for it."""
    signature: str | None = None
    """How BLEU was computed."""
    per_character: float | None = None
    """The loss per character of the target texts, which no choice of sub-words changes."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Finished:
    """The end: where the model is, or that it is still to come."""

    path: Path
    progress: Progress
    is_complete: bool


Event = Notice | Step | Validated | Finished


def finite(row: dict[str, Fact]) -> dict[str, Fact | None]:
    """The same row as JSON can hold it: what is no number is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def step_record(step: Step) -> dict[str, Fact]:
    """An update as `metrics.jsonl` and `--json` have it."""
    return {
        "step": step.progress.step,
        "epoch": step.progress.epoch,
        "train_loss": step.nll,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm,
        "target_tokens": step.progress.target_tokens,
        "target_tokens_per_second": round(step.target_tokens / step.seconds, 1),
        "source_tokens_per_second": round(step.source_tokens / step.seconds, 1),
        "splits": step.splits,
        "seconds": round(step.seconds, 4),
    }


def validated_record(event: Validated) -> dict[str, Fact]:
    """A validation as `metrics.jsonl` and `--json` have it."""
    row: dict[str, Fact] = {
        "step": event.step,
        "valid_loss": event.loss,
    }
    if event.exact_match is not None:
        row["exact_match"] = event.exact_match
    if event.per_character is not None:
        row["valid_loss_per_character"] = event.per_character
    if event.bleu is not None and event.signature is not None:
        row |= {"bleu": event.bleu, "bleu_signature": event.signature}
    return {**row, "is_best": event.is_best, "seconds": round(event.seconds, 4)}


def finished_record(event: Finished) -> dict[str, Fact]:
    """The end, as `--json` has it."""
    return {
        "step": event.progress.step,
        "run": str(event.path),
        "is_complete": event.is_complete,
    }


def matched(event: Validated) -> str:
    """What a line about a validation adds of its exact match, if it has one."""
    return "" if event.exact_match is None else f", exact match {event.exact_match:.4f}"
