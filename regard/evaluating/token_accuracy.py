"""Token accuracy: the share of words, tags or other tokens that are right where they stand.

    accuracy = Σ |{i : h[i] = r[i]}| / Σ max(|h|, |r|)

with h the tokens of a hypothesis and r those of its reference. A place that only one of the two has
is wrong. Of several references the one that agrees most counts.
"""

from collections.abc import Sequence

import numpy as np

from regard.evaluating.score import Measured, Score, Statistics, check_texts, reference_counts


def token_accuracy(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """How many tokens between spaces are right, place by place, as a share.

    >>> token_accuracy(["DET NOUN", "VERB"], [["DET VERB"], ["VERB PUNCT"]])
    0.5
    """
    return measured_token_accuracy(hypotheses, references).score.value / 100


def measured_token_accuracy(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Measured:
    """Token accuracy in per cent, with what each sentence adds to it."""
    check_texts("token_accuracy", hypotheses, references)
    rows = np.array(
        [_agreeing(text, answers) for text, answers in zip(hypotheses, references, strict=True)],
        dtype=np.float64,
    )
    signature = f"{reference_counts(references)}|case:mixed|tok:spaces|percent"
    total = rows.sum(axis=0)
    return Measured(Score("token accuracy", _per_cent(total), signature), rows, _per_cent)


def _agreeing(text: str, answers: Sequence[str]) -> tuple[int, int]:
    """The places that are right and all places, by the reference that agrees most."""
    said = text.split()
    counts = [_counted(said, answer.split()) for answer in answers]
    return max(counts, key=lambda count: (_share(*count), count))


def _counted(said: Sequence[str], wanted: Sequence[str]) -> tuple[int, int]:
    right = sum(one == other for one, other in zip(said, wanted, strict=False))
    return right, max(len(said), len(wanted))


def _share(right: float | int, places: float | int) -> float:
    return right / places if places else 1.0


def _per_cent(total: Statistics) -> float:
    return 100 * _share(float(total[0]), float(total[1]))
