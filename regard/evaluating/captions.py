"""All scores of a captioner at once, read as the field reads captions."""

from collections.abc import Mapping, Sequence

from sacrebleu.metrics.chrf import CHRF

from regard.choices import find
from regard.evaluating.bleu import measured_bleu_orders
from regard.evaluating.caption_readings import READINGS
from regard.evaluating.cider import measured_cider_d
from regard.evaluating.exact_match import measured_exact_match
from regard.evaluating.length_ratio import ratio_of
from regard.evaluating.sacre import Sacre
from regard.evaluating.score import Measured, Score


def score_captions(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> tuple[Score, ...]:
    """BLEU-1 to BLEU-4, CIDEr-D, chrF2, exact match (per cent) and length ratio.

    Whatever the reading, exact match compares to the letter; chrF2 follows it in case only. Each
    signature says so.

    Args:
        hypotheses: one caption a picture.
        references: all captions that people gave each picture; their number may differ.
        reading: "bare" (lower-cased, no punctuation), "lower" or "cased".
        tokenizer: by default the one the references' script needs.
    """
    measured = measured_captions(hypotheses, references, reading=reading, tokenizer=tokenizer)
    return (*(one.score for one in measured.values()), ratio_of(measured["BLEU-1"]))


def measured_captions(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> Mapping[str, Measured]:
    """The scores that are sums over captions, by name, so that systems can be resampled."""
    orders = measured_bleu_orders(hypotheses, references, reading=reading, tokenizer=tokenizer)
    is_cased = find(reading, READINGS, key="reading").is_cased
    every = (
        *orders,
        measured_cider_d(hypotheses, references, reading=reading, tokenizer=tokenizer),
        Sacre("chrF2", CHRF(lowercase=not is_cased)).measured(hypotheses, references),
        measured_exact_match(hypotheses, references),
    )
    return {one.score.name: one for one in every}
