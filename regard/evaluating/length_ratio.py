"""Length ratio: words of the hypotheses over words of the references, as BLEU counts them."""

from collections.abc import Sequence

from regard.evaluating.bleu import measured_bleu
from regard.evaluating.score import Measured, Score

HYPOTHESIS, REFERENCE = 0, 1
"""The columns of BLEU's counts that hold lengths."""

SAID = ("nrefs:", "tok:", "version:")
"""The parts of BLEU's signature on which lengths depend."""


def length_ratio(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str | None = None,
) -> Score:
    """Below 1 the system says too little; of several references the closest length counts."""
    return ratio_of(measured_bleu(hypotheses, references, tokenizer=tokenizer))


def ratio_of(measured: Measured) -> Score:
    """The length ratio of texts whose BLEU was measured already."""
    total = measured.rows.sum(axis=0)
    ratio = float(total[HYPOTHESIS] / total[REFERENCE]) if total[REFERENCE] else float("inf")
    kept = [part for part in measured.score.signature.split("|") if part.startswith(SAID)]
    return Score("length ratio", ratio, "|".join(kept))
