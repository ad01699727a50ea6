"""Label counts: how often each label of the references was answered by each label.

    precision(a) = n[a,a] / Σ_r n[r,a],   recall(a) = n[a,a] / Σ_h n[a,h]
    F1(a) = 2 n[a,a] / (Σ_r n[r,a] + Σ_h n[a,h])

with n[r,h] the places where the reference has r and the answer h, words between spaces compared
place by place, or whole texts. A place that only one of the two has is met by NOTHING. The scores
of all are the means over the labels, each counting alike (macro), and 0 where nothing is divided by
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.evaluating.score import MetricScore, TextLists, Texts, check_texts, tokens_by, tokens_of

NOTHING = "(nothing)"
"""What stands for a label at a place that a text does not have."""

MOST_SHOWN = 20
"""The most labels of which a table shows every pair."""


@dataclass(frozen=True)
class LabelScore:
    """How well one label was answered, in per cent, and how often it was asked for."""

    label: str
    precision: float
    recall: float
    f1: float
    count: int


@final
@dataclass(frozen=True, eq=False)
class LabelCounts:
    """The counts of all pairs of labels: rows are references, columns answers."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    is_whole: bool = False
    """Whether each text is one label."""

    @classmethod
    def of(
        cls, hypotheses: Texts, references: TextLists, *, is_whole: bool = False
    ) -> "LabelCounts":
        """Count the labels of texts with one reference each, by words or by whole texts.

        >>> LabelCounts.of(["DET VERB"], [["DET NOUN"]]).counts.tolist()
        [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
        """
        check_texts("labels", hypotheses, references)
        if any(len(each) != 1 for each in references):
            raise ShapeError(
                "labels: expected one reference a text, got several. Give one --reference file."
            )
        pairs = [
            pair
            for text, (wanted,) in zip(hypotheses, references, strict=True)
            for pair in zip_longest(
                tokens_of(wanted, is_whole=is_whole),
                tokens_of(text, is_whole=is_whole),
                fillvalue=NOTHING,
            )
        ]
        labels = tuple(sorted({label for pair in pairs for label in pair}))
        place = {label: number for number, label in enumerate(labels)}
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        for wanted, answered in pairs:
            counts[place[wanted], place[answered]] += 1
        return cls(labels, counts, is_whole)

    def by_label(self) -> list[LabelScore]:
        """The scores of each label; what stands for no label has no scores."""
        right = np.diagonal(self.counts)
        wanted, answered = self.counts.sum(1), self.counts.sum(0)
        return [
            LabelScore(
                label,
                _per_cent(right[i], answered[i]),
                _per_cent(right[i], wanted[i]),
                _per_cent(2 * right[i], wanted[i] + answered[i]),
                int(wanted[i]),
            )
            for i, label in enumerate(self.labels)
            if label != NOTHING
        ]

    def scores(self) -> tuple[MetricScore, ...]:
        """Precision, recall and F1, the means over the labels."""
        each = self.by_label()
        by = tokens_by(is_whole=self.is_whole)
        signature = f"labels:{len(each)}|average:macro|case:mixed|tok:{by}|percent"
        means: Mapping[str, list[float]] = {
            "precision": [one.precision for one in each],
            "recall": [one.recall for one in each],
            "F1": [one.f1 for one in each],
        }
        return tuple(
            MetricScore(name, sum(values) / max(1, len(values)), signature)
            for name, values in means.items()
        )

    def as_json(self) -> dict[str, Any]:
        """All counts and scores as plain data; rows of the counts are the references."""
        each = [one.__dict__ for one in self.by_label()]
        return {"labels": list(self.labels), "counts": self.counts.tolist(), "scores": each}

    def __str__(self) -> str:
        """Each label's scores, and how it was answered: rows are references, columns answers."""
        width = max(len("label"), *map(len, self.labels))
        scores = {one.label: one for one in self.by_label()}
        lines = [f"     {'label':<{width}}{'precision':>11}{'recall':>8}{'F1':>8}{'count':>9}"]
        for i, label in enumerate(self.labels, 1):
            one = scores.get(label, LabelScore(label, 0.0, 0.0, 0.0, 0))
            told = f"{one.precision:>11.1f}{one.recall:>8.1f}{one.f1:>8.1f}{one.count:>9,}"
            lines.append(f"{i:>3}  {label:<{width}}{told}")
        if len(self.labels) > MOST_SHOWN:
            return "\n".join([*lines, "", *self._confused()])
        # a column is as wide as its numbers, and is named by its row's number
        cell = max(3, len(str(self.counts.max()))) + 1
        columns = "".join(f"{i:>{cell}}" for i in range(1, len(self.labels) + 1))
        rows = ("".join(f"{n or '·':>{cell}}" for n in row) for row in self.counts.tolist())
        return "\n".join(
            f"{line}  {row}" for line, row in zip(lines, (columns, *rows), strict=True)
        )

    def _confused(self, most: int = 10) -> list[str]:
        """The pairs that were mistaken most often."""
        wrong = self.counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(self.labels)) for place in order]
        return [
            f"{self.labels[i]} answered as {self.labels[j]}: {wrong[i, j]:,} times"
            for i, j in pairs
            if wrong[i, j]
        ]


def _per_cent(part: np.int64, whole: np.int64) -> float:
    return 100 * int(part) / int(whole) if whole else 0.0
