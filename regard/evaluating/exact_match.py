"""Exact match: the share of answers that are right to the letter."""

from collections.abc import Sequence

from regard.errors import ShapeError


def exact_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """How many hypotheses equal one of their references, as a share.

    >>> exact_match(["a b", "c"], [["a b"], ["d", "e"]])
    0.5
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ShapeError(
            f"exact_match: expected as many hypotheses as references and at least one, got "
            f"{len(hypotheses)} and {len(references)}."
        )
    right = sum(text in answers for text, answers in zip(hypotheses, references, strict=True))
    return right / len(hypotheses)
