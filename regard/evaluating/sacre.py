"""Everything regard asks of sacreBLEU, in one place.

Resampling needs the counts of each sentence. sacreBLEU keeps them behind an underscore, where its
own paired tests read them; a test holds them against its public `corpus_score`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric

from regard.evaluating.score import Measured, Score, Statistics


@dataclass(frozen=True)
class Sacre:
    """One of sacreBLEU's metrics under our name for it."""

    name: str
    metric: Metric
    note: str = ""
    is_higher_better: bool = True

    def score(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        """The score of a corpus whose sentences may have different numbers of references."""
        value = self.metric.corpus_score(hypotheses, _streams(references)).score
        return self._said(float(value))

    def measured(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Measured:
        """The same score, with what each sentence adds to it."""
        counts = self.metric._extract_corpus_statistics(hypotheses, _streams(references))
        rows = np.array(counts, dtype=np.float64)
        value = partial(_value, self.metric)
        return Measured(self._said(value(rows.sum(axis=0))), rows, value, self.is_higher_better)

    def _said(self, value: float) -> Score:
        return Score(self.name, value, str(self.metric.get_signature()), self.note)


def _value(metric: Metric, total: Statistics) -> float:
    return float(metric._compute_score_from_stats(total.tolist()).score)


# sacreBLEU takes None, as its documentation says, but its annotations do not: hence Any
def _streams(references: Sequence[Sequence[str]]) -> Any:
    """Lists by sentence become streams by reference, with `None` where a sentence has no more.

    >>> _streams([["a", "b"], ["c"]])
    [['a', 'c'], ['b', None]]
    """
    most = max(len(answers) for answers in references)
    return [
        [answers[number] if number < len(answers) else None for answers in references]
        for number in range(most)
    ]
