"""All scores of one system at once."""

from collections.abc import Callable, Mapping, Sequence

from regard.evaluating.bleu import measured_bleu
from regard.evaluating.chrf import measured_chrf
from regard.evaluating.exact_match import measured_exact_match
from regard.evaluating.length_ratio import ratio_of
from regard.evaluating.score import Measured, Score
from regard.evaluating.ter import measured_ter

Measure = Callable[[Sequence[str], Sequence[Sequence[str]], str | None], Measured]

MEASURES: Mapping[str, Measure] = {
    "BLEU": lambda texts, answers, tokenizer: measured_bleu(texts, answers, tokenizer=tokenizer),
    "chrF2": lambda texts, answers, _: measured_chrf(texts, answers),
    "TER": lambda texts, answers, _: measured_ter(texts, answers),
    "exact match": lambda texts, answers, _: measured_exact_match(texts, answers),
}
"""Scores that are sums over sentences, so that systems can be compared by resampling."""


def score_all(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str | None = None,
) -> tuple[Score, ...]:
    """BLEU, chrF2, TER, exact match (per cent) and length ratio, each with its signature.

    Args:
        hypotheses: one text a sentence.
        references: all references of each sentence; their number may differ.
        tokenizer: for BLEU and the length ratio; by default the one the references' script needs.
    """
    measured = {
        name: measure(hypotheses, references, tokenizer) for name, measure in MEASURES.items()
    }
    return (*(one.score for one in measured.values()), ratio_of(measured["BLEU"]))
