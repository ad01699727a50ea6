"""Accuracy: the share of answers, or of their tokens, that equal the reference exactly.

    exact match    = |{answers that equal one of their references}| / |answers|
    token accuracy = Σ |{i : h[i] = r[i]}| / Σ max(|h|, |r|)

with h the tokens of a hypothesis and r those of its reference. A place that only one of the two has
is wrong. Of several references the one with the most agreement counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import ShapeError
from regard.evaluating.score import (
    MeasuredScore,
    MetricScore,
    Statistics,
    TextLists,
    Texts,
    check_texts,
    mean,
    reference_counts,
    tokens_by,
    tokens_of,
)


def exact_match(hypotheses: Texts, references: TextLists) -> float:
    """How many hypotheses equal one of their references, as a share.

    >>> exact_match(["a b", "c"], [["a b"], ["d", "e"]])
    0.5
    """
    check_texts("exact_match", hypotheses, references)
    return sum(_matches(hypotheses, references)) / len(hypotheses)


def measured_exact_match(hypotheses: Texts, references: TextLists) -> MeasuredScore:
    """Exact match in per cent, with what each sentence adds to it."""
    value = 100 * exact_match(hypotheses, references)
    rows = np.array([[100.0 * is_right, 1.0] for is_right in _matches(hypotheses, references)])
    signature = f"{reference_counts(references)}|case:mixed|percent"
    return MeasuredScore(MetricScore("exact match", value, signature), rows, mean)


@dataclass(frozen=True)
class Share:
    """A count of right answers and a count of all; shares of two groups can be added."""

    right: int = 0
    count: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.right + other.right, self.count + other.count)

    @property
    def value(self) -> float:
        """From 0 to 1; 1 if nothing was counted."""
        return self.right / self.count if self.count else 1.0

    def __str__(self) -> str:
        # rounded down, so that only a perfect share is shown as 100 %
        return f"{self.right * 1000 // self.count / 10 if self.count else 100:.1f} %"


def exact_by_group(
    groups: Sequence[str], hypotheses: Texts, references: TextLists
) -> dict[str, Share]:
    """Exact matches of each group, such as a language: an overall share may hide a failing group.

    >>> exact_by_group(["fr", "de", "fr"], ["1", "2", "3"], [["1"], ["2"], ["4"]])
    {'de': Share(right=1, count=1), 'fr': Share(right=1, count=2)}
    """
    check_texts("exact_by_group", hypotheses, references)
    if len(groups) != len(hypotheses):
        raise ShapeError(
            f"exact_by_group: expected one group a sentence, got {len(groups)} for "
            f"{len(hypotheses)} sentences."
        )
    found = {name: Share() for name in sorted(set(groups))}
    for name, is_right in zip(groups, _matches(hypotheses, references), strict=True):
        found[name] += Share(int(is_right), 1)
    return found


def measured_token_accuracy(
    hypotheses: Texts, references: TextLists, *, is_whole: bool = False
) -> MeasuredScore:
    """How many tokens are right, in per cent, with what each sentence adds to it.

    Tokens stand between spaces; where `is_whole`, a text is one token, such as a label.

    >>> measured_token_accuracy(["DET NOUN", "VERB"], [["DET VERB"], ["VERB PUNCT"]]).score.value
    50.0
    """
    check_texts("token_accuracy", hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    rows = np.array(
        [
            _agreeing(
                tokens_of(text, is_whole=is_whole),
                [tokens_of(one, is_whole=is_whole) for one in answers],
            )
            for text, answers in pairs
        ],
        dtype=np.float64,
    )
    signature = (
        f"{reference_counts(references)}|case:mixed|tok:{tokens_by(is_whole=is_whole)}|percent"
    )
    score = MetricScore("token accuracy", _per_cent(rows.sum(axis=0)), signature)
    return MeasuredScore(score, rows, _per_cent)


def _matches(hypotheses: Texts, references: TextLists) -> list[bool]:
    return [text in answers for text, answers in zip(hypotheses, references, strict=True)]


def _agreeing(own: Sequence[str], answers: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The numbers of right places and of all places, for the reference with the most agreement."""
    counts = []
    for wanted in answers:
        right = sum(one == other for one, other in zip(own, wanted, strict=False))
        counts.append((right, max(len(own), len(wanted))))
    return max(counts, key=lambda count: (Share(*count).value, count))


def _per_cent(total: Statistics) -> float:
    right, places = total.tolist()
    return 100 * (right / places if places else 1.0)
