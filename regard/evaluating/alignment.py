"""Alignment error rate: how far a system's word links are from people's.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
    precision = |A ∩ P| / |A|,   recall = |A ∩ S| / |S|

with A the system's links, S the sure links and P the possible ones, S among them. Counts are summed
over the corpus before dividing.

Paper: Och & Ney 2003.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from regard.errors import ShapeError
from regard.evaluating.links import Gold, Link


@dataclass(frozen=True)
class AlignmentCounts:
    """The five numbers behind the rates; those of two corpora add up."""

    links: int = 0
    sure: int = 0
    possible: int = 0
    in_sure: int = 0
    """Links of the system that are sure."""
    in_possible: int = 0
    """Links of the system that are possible."""

    @classmethod
    def of(cls, links: Set[Link], gold: Gold) -> "AlignmentCounts":
        """Count one sentence."""
        possible = gold.possible
        return cls(
            len(links), len(gold.sure), len(possible), len(links & gold.sure), len(links & possible)
        )

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        return AlignmentCounts(
            self.links + other.links,
            self.sure + other.sure,
            self.possible + other.possible,
            self.in_sure + other.in_sure,
            self.in_possible + other.in_possible,
        )

    @property
    def error_rate(self) -> float:
        """0 where every link is possible and no sure one is missing; 0 where there is nothing."""
        return 1 - _share(self.in_sure + self.in_possible, self.links + self.sure)

    @property
    def precision(self) -> float:
        """The share of the system's links that are possible; 1 where it made none."""
        return _share(self.in_possible, self.links)

    @property
    def recall(self) -> float:
        """The share of the sure links that the system made; 1 where there are none."""
        return _share(self.in_sure, self.sure)

    def __str__(self) -> str:
        return (
            f"AER {100 * self.error_rate:.1f} % (precision {100 * self.precision:.1f} %, "
            f"recall {100 * self.recall:.1f} %, {self.links} links, {self.sure} sure, "
            f"{self.possible} possible)"
        )


def alignment_error(alignments: Sequence[Set[Link]], golds: Sequence[Gold]) -> AlignmentCounts:
    """Score the alignments of a corpus.

    >>> print(alignment_error([{(0, 0), (1, 1)}], [Gold(frozenset({(0, 0)}))]))
    AER 33.3 % (precision 50.0 %, recall 100.0 %, 2 links, 1 sure, 1 possible)
    """
    if len(alignments) != len(golds):
        raise ShapeError(
            f"alignment_error: expected one gold alignment a sentence, got {len(golds)} for "
            f"{len(alignments)} sentences."
        )
    counts = (
        AlignmentCounts.of(links, gold) for links, gold in zip(alignments, golds, strict=True)
    )
    return sum(counts, AlignmentCounts())


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
