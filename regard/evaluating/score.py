"""A score with its signature, and the checks of texts that every metric makes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError

Texts = Sequence[str]
"""The hypotheses: one text a sentence, or one caption a picture."""
TextLists = Sequence[Sequence[str]]
"""All references of each sentence; their number may differ."""
Statistics = NDArray[np.float64]
"""Counts from which a score is computed; those of a corpus are the sum of its sentences'."""


@dataclass(frozen=True)
class MetricScore:
    """One number of one system, with the signature that is needed to reproduce it.

    >>> print(MetricScore("BLEU", 41.234, "nrefs:1|case:mixed|tok:13a"))
    BLEU 41.23 (nrefs:1|case:mixed|tok:13a)
    """

    name: str
    value: float
    signature: str
    note: str = ""
    """A caveat for the reader; usually empty."""

    def __str__(self) -> str:
        said = f"{self.name} {self.value:.2f} ({self.signature})"
        return f"{said} [{self.note}]" if self.note else said


@dataclass(frozen=True)
class MeasuredScore:
    """A system's score and what each sentence added to it, so that any subset can be scored."""

    score: MetricScore
    rows: Statistics
    """Counts of each sentence, one row a sentence."""
    value: Callable[[Statistics], float]
    """The score of summed rows."""
    is_higher_better: bool = True

    def of(self, sentences: Sequence[int]) -> float:
        """The score of some sentences only."""
        return self.value(self.rows[list(sentences)].sum(axis=0))

    def by_sentence(self) -> list[float]:
        """The score of every sentence alone."""
        return [self.value(row) for row in self.rows]


def mean(total: Statistics) -> float:
    """The score of metrics whose rows hold a sum and what it is divided by."""
    return float(total[0] / total[1]) if total[1] else 0.0


def check_texts(who: str, hypotheses: Texts, references: TextLists) -> None:
    """Refuse texts that do not pair up: every hypothesis needs its own list of references."""
    if len(hypotheses) != len(references) or not hypotheses:
        raise ShapeError(
            f"{who}: expected as many hypotheses as lists of references and at least one, got "
            f"{len(hypotheses)} and {len(references)}."
        )
    for line, answers in enumerate(references, 1):
        if isinstance(answers, str):
            raise ShapeError(
                f"{who}: the references of sentence {line} are one text, {answers!r}, where a list "
                f"was expected. Write [{answers!r}] for a single reference."
            )
        if not answers:
            raise ShapeError(
                f"{who}: sentence {line} has no reference. Give it one, or leave the sentence out."
            )


def reference_counts(references: TextLists) -> str:
    """The number of references per sentence, in the form of sacreBLEU's signatures.

    >>> reference_counts([["a", "b"], ["c"]]), reference_counts([["a"], ["b"]])
    ('nrefs:var', 'nrefs:1')
    """
    counts = {len(answers) for answers in references}
    return f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}"


def tokens_of(text: str, *, is_whole: bool) -> list[str]:
    """What is compared of a text: its words between spaces, or all of it."""
    return [text] if is_whole else text.split()


def tokens_by(*, is_whole: bool) -> str:
    """What cuts tokens, for a signature."""
    return "none" if is_whole else "spaces"
