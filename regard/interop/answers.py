"""Answers: a run's own examples, answered by torch and by another program, and compared.

Greedy search is the same function everywhere: the other program must write the same tokens, with
the same log-probabilities. Two answers of equal probability are a tie, which rounding decides.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import torch

from regard.data.subword_kinds import BOS, PAD
from regard.decoding import Decodable, Greedy, Limits, Sentence
from regard.errors import RunError
from regard.models import Stepper
from regard.models.shapes import Logits, NewTokens
from regard.runs.example_inputs import other_examples, own_examples
from regard.runs.trained import Trained
from regard.tasks.predictions import Request
from regard.tasks.searched_texts import sentence_of

MAX_CHECKED_TOKENS = 48
"""The longest answer that is compared."""
ROUNDING = 1e-3
"""How far apart the log-probabilities of an answer may be in float32, for each token."""


class Differing(NamedTuple):
    """A text to which the other program writes something else."""

    source: str
    ours: str
    theirs: str


@final
@dataclass(frozen=True)
class ComparedAnswers:
    """The answers of another program beside those of torch."""

    count: int
    """Texts that both have answered."""
    differ: tuple[Differing, ...]
    n_ties: int = 0
    apart: float = 0.0
    """How far apart the log-probabilities of an answer are, for each token, at most."""
    are_own: bool = True
    """Whether the texts are those of the run's data."""

    def __str__(self) -> str:
        if not self.count:
            return "not compared with torch: there is no text that the run can be asked"
        whose = "of the run's own data" if self.are_own else "(the run's data are not here)"
        ties = f", {self.n_ties} of them a tie" if self.n_ties else ""
        equal = self.count - len(self.differ)
        return (
            f"{equal} of {self.count} answers to texts {whose} are those of torch{ties}; their "
            f"log-probabilities are at most {self.apart:.0e} a token apart"
        )

    def check(self, who: str) -> None:
        """Refuse answers that differ by more than rounding; errors begin with `who`."""
        remedy = "Nothing was kept of it; please report this model."
        if self.differ:
            one = self.differ[0]
            raise RunError(
                f"{who}: to '{one.source[:40]}' it writes '{one.theirs[:40]}', but torch "
                f"'{one.ours[:40]}'. {remedy}"
            )
        if self.apart > ROUNDING:
            raise RunError(
                f"{who}: its log-probabilities are up to {self.apart:.0e} a token apart from those "
                f"of torch. {remedy}"
            )


def checked_sentences(run: Trained) -> tuple[list[str], list[Sentence], bool]:
    """Texts that a run can be asked, as sentences, and whether they are of its own data."""
    own = own_examples(run).inputs
    texts = [text for text in own or other_examples(run) if run.length(text) <= run.longest]
    return texts, [sentence_of(run, Request(text)) for text in texts], bool(own)


@final
class ClosedStepper:
    """A model without padding and begin: their probability is shared among the other pieces."""

    def __init__(self, model: Stepper) -> None:
        self._step = model.step
        self.start, self.select, self.branch = model.start, model.select, model.branch

    def step(self, state: Any, tokens: NewTokens) -> tuple[Logits, Any]:
        """The logits after each new token, and the new state."""
        logits, after = self._step(state, tokens)
        return logits.index_fill(
            -1, torch.tensor([PAD, BOS], device=logits.device), -torch.inf
        ), after


def compared_answers(run: Trained, other: Decodable, *, is_closed: bool = False) -> ComparedAnswers:
    """Answer the run's examples greedily by both.

    `is_closed`: the other program cannot write padding and begin.
    """
    texts, sentences, are_own = checked_sentences(run)
    if not sentences:
        return ComparedAnswers(0, ())
    most = min(MAX_CHECKED_TOKENS, run.default_search().limits.max_tokens)
    search = Greedy(limits=Limits(max_tokens=most))
    with run.hardware.on_threads():
        model = ClosedStepper(cast(Stepper, run.stepper)) if is_closed else run.stepper
        ours = search(model, sentences, device=run.hardware.device)
        theirs = search(other, sentences)
    target, differ, n_ties, apart = run.loaded.target, list[Differing](), 0, 0.0
    for text, (mine,), (their,) in zip(texts, ours, theirs, strict=True):
        distance = abs(mine.log_probability - their.log_probability) / (len(mine.tokens) + 1)
        if mine.tokens == their.tokens:
            apart = max(apart, distance)
        elif distance < ROUNDING:
            n_ties += 1
        else:
            differ.append(Differing(text, target.decode(mine.tokens), target.decode(their.tokens)))
    return ComparedAnswers(len(texts), tuple(differ), n_ties, apart, are_own)
