"""Scores of texts against references: those of translations, and those of captions.

What `regard evaluate --metrics` knows by name is `EVALUATE_METRICS` in regard/runs/evaluation.py,
because some scores need the run; a metric that `regard compare` resamples has a line here as well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.evaluating.accuracy import measured_exact_match, measured_token_accuracy
from regard.evaluating.cider import measured_cider_d
from regard.evaluating.sacrebleu_metrics import (
    measured_bleu,
    measured_bleu_orders,
    measured_chrf,
    measured_ter,
    ratio_of,
)
from regard.evaluating.score import MeasuredScore, MetricScore, TextLists, Texts

Measure = Callable[[Texts, TextLists, str | None], MeasuredScore]
"""A score of texts against references, by the tokeniser of this name; None takes the usual one."""


@dataclass(frozen=True)
class Measures:
    """The measures by which systems are compared: sums over sentences, which can be resampled."""

    by_name: Mapping[str, Measure]
    by_length: str
    """The measure that is shown by length."""
    by_sentence: str
    """The measure that compares single sentences."""
    unresampled: Callable[[MeasuredScore], tuple[MetricScore, ...]] = lambda _: ()
    """More scores, out of the counts of the measure shown by length."""


RESAMPLED_METRICS: Mapping[str, Measure] = {
    "BLEU": lambda texts, answers, tokenizer: measured_bleu(texts, answers, tokenizer=tokenizer),
    "chrF2": lambda texts, answers, _: measured_chrf(texts, answers),
    "TER": lambda texts, answers, _: measured_ter(texts, answers),
    "exact match": lambda texts, answers, _: measured_exact_match(texts, answers),
}
"""The measures of written texts."""

OF_TEXTS = Measures(RESAMPLED_METRICS, "BLEU", "chrF2", lambda bleu: (ratio_of(bleu),))

OF_TAGS = Measures(
    {
        "token accuracy": lambda texts, answers, _: measured_token_accuracy(texts, answers),
        "exact match": RESAMPLED_METRICS["exact match"],
    },
    "token accuracy",
    "token accuracy",
)
"""Labels of words."""

OF_LABELS = Measures(
    {"exact match": RESAMPLED_METRICS["exact match"]}, "exact match", "exact match"
)
"""One label for each text."""


def score_all(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> tuple[MetricScore, ...]:
    """BLEU, chrF2, TER, exact match (per cent) and length ratio, each with its signature.

    `tokenizer` is for BLEU and the length ratio; by default the one the references' script needs.
    """
    measured = {
        name: measure(hypotheses, references, tokenizer)
        for name, measure in RESAMPLED_METRICS.items()
    }
    return (*(one.score for one in measured.values()), ratio_of(measured["BLEU"]))


def score_captions(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> tuple[MetricScore, ...]:
    """BLEU-1 to BLEU-4, CIDEr-D, chrF2, exact match (per cent) and length ratio.

    Words are lower-cased and without punctuation, characters lower-cased; exact match compares
    unchanged texts. Each signature states this.
    """
    orders = measured_bleu_orders(hypotheses, references, tokenizer=tokenizer)
    measured = (
        *orders,
        measured_cider_d(hypotheses, references, tokenizer=tokenizer),
        measured_chrf(hypotheses, references, is_cased=False),
        measured_exact_match(hypotheses, references),
    )
    return (*(one.score for one in measured), ratio_of(orders[0]))
