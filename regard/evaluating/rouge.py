"""ROUGE: words, pairs of words, and longest common subsequence shared with a reference.

    F1 = 2 P R / (P + R),   P = shared / said,   R = shared / wanted     (of ROUGE-1, -2 and -L)

Of several references each text takes the one that suits it best. The score is the mean over texts,
in per cent; words are lower-cased runs of letters and digits, stemmed (Porter) as is usual.

Paper: Lin 2004. Computed by the package rouge-score.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from regard.evaluating.score import Measured, Score, check_texts, reference_counts

NAMES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def rouge(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Score, Score, Score]:
    """ROUGE-1, ROUGE-2 and ROUGE-L.

    >>> print(rouge(["the cat sat"], [["the cat sat down"]])[0].value.__round__(1))
    85.7
    """
    one, two, longest = measured_rouge(hypotheses, references)
    return one.score, two.score, longest.score


def measured_rouge(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Measured, Measured, Measured]:
    """The same with what each text adds, so that two systems can be compared."""
    check_texts("rouge", hypotheses, references)
    found = [
        _scorer().score_multi(list(answers), text)
        for text, answers in zip(hypotheses, references, strict=True)
    ]
    signature = (
        f"{reference_counts(references)}|F1|stem:porter|rouge-score:{version('rouge-score')}"
    )
    one, two, longest = (_measured(name, found, signature) for name in NAMES)
    return one, two, longest


def _measured(name: str, found: Sequence[Any], signature: str) -> Measured:
    rows = np.array([[100 * each[name].fmeasure, 1.0] for each in found])

    def value(summed: np.ndarray) -> float:
        return float(summed[0] / summed[1]) if summed[1] else 0.0

    return Measured(Score(NAMES[name], value(rows.sum(axis=0)), signature), rows, value)


@lru_cache(maxsize=1)
def _scorer() -> Any:
    # it takes a second to import, and few ask for it
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(NAMES), use_stemmer=True)
