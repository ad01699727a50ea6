"""Exact match by group: one share for all may hide a language that fails."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import ShapeError
from regard.evaluating.score import check_texts


@dataclass(frozen=True)
class Share:
    """So many right of so many; those of two groups add up."""

    right: int = 0
    count: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.right + other.right, self.count + other.count)

    @property
    def value(self) -> float:
        """From 0 to 1; 1 where nothing was asked."""
        return self.right / self.count if self.count else 1.0

    def __str__(self) -> str:
        # rounded down: only what is all right is called 100 %
        return f"{self.right * 1000 // self.count / 10 if self.count else 100:.1f} %"


def exact_by_group(
    groups: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Share]:
    """How many hypotheses of each group equal one of their references, groups by name.

    >>> exact_by_group(["fr", "de", "fr"], ["1", "2", "3"], [["1"], ["2"], ["4"]])
    {'de': Share(right=1, count=1), 'fr': Share(right=1, count=2)}

    Args:
        groups: the group of each sentence, such as its language.
        hypotheses: what was answered.
        references: all right answers of each sentence.
    """
    check_texts("exact_by_group", hypotheses, references)
    if len(groups) != len(hypotheses):
        raise ShapeError(
            f"exact_by_group: expected one group a sentence, got {len(groups)} for "
            f"{len(hypotheses)} sentences."
        )
    found = {name: Share() for name in sorted(set(groups))}
    for name, text, answers in zip(groups, hypotheses, references, strict=True):
        found[name] += Share(int(text in answers), 1)
    return found
