"""TER: the edits that turn a translation into its reference, per hundred reference words.

    TER = 100 · (insertions + deletions + substitutions + shifts of phrases) / reference words

Lower is better. Texts are lower-cased, as in Tercom. Chinese is edited by characters, Japanese by
Chinese characters and runs of kana.

Paper: Snover et al. 2006. Computed by sacreBLEU.
"""

from collections.abc import Sequence

from sacrebleu.metrics.ter import TER

from regard.evaluating.sacre import Sacre
from regard.evaluating.score import Measured, Score, check_texts
from regard.evaluating.tokenizers import tokenizer_for


def ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Corpus TER; of several references, each sentence takes the one with the fewest edits."""
    return _metric(hypotheses, references).score(hypotheses, references)


def measured_ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Measured:
    """TER with what each sentence adds to it."""
    return _metric(hypotheses, references).measured(hypotheses, references)


def _metric(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Sacre:
    check_texts("ter", hypotheses, references)
    has_spaces = tokenizer_for(references).name == "13a"
    # Tercom splits Asian characters only where it also normalises
    metric = TER(normalized=not has_spaces, asian_support=not has_spaces)
    return Sacre("TER", metric, is_higher_better=False)
