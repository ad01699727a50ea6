"""chrF2: character sequences of up to six characters shared with the reference, recall twice.

    chrF_β = (1 + β²) · P · R / (β² P + R),   β = 2

with P and R the mean precision and recall over the six lengths, spaces left out. No tokeniser is
involved, so it needs no choice for Chinese or Japanese.

Paper: Popović 2015, 2016. Computed by sacreBLEU.
"""

from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF

from regard.evaluating.sacre import Sacre
from regard.evaluating.score import Measured, Score, check_texts


def chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Corpus chrF2; of several references, each sentence takes the one that suits it best."""
    check_texts("chrf", hypotheses, references)
    return Sacre("chrF2", CHRF()).score(hypotheses, references)


def measured_chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Measured:
    """chrF2 with what each sentence adds to it."""
    check_texts("chrf", hypotheses, references)
    return Sacre("chrF2", CHRF()).measured(hypotheses, references)
