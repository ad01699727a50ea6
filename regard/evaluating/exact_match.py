"""Exact match: the share of answers that are right to the letter."""

from collections.abc import Sequence

import numpy as np

from regard.evaluating.score import Measured, Score, Statistics, check_texts, reference_counts


def exact_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """How many hypotheses equal one of their references, as a share.

    >>> exact_match(["a b", "c"], [["a b"], ["d", "e"]])
    0.5
    """
    check_texts("exact_match", hypotheses, references)
    right = sum(text in answers for text, answers in zip(hypotheses, references, strict=True))
    return right / len(hypotheses)


def measured_exact_match(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Measured:
    """Exact match in per cent, with what each sentence adds to it."""
    share = exact_match(hypotheses, references)
    rows = [
        [float(text in answers), 1.0] for text, answers in zip(hypotheses, references, strict=True)
    ]
    score = Score("exact match", 100 * share, f"{reference_counts(references)}|case:mixed|percent")
    return Measured(score, np.array(rows), _per_cent)


def _per_cent(total: Statistics) -> float:
    return float(100 * total[0] / total[1])
