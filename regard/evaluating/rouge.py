"""ROUGE: words, pairs of words, and longest common subsequence shared with a reference.

    F1 = 2 P R / (P + R),   P = shared / said,   R = shared / wanted     (of ROUGE-1, -2 and -L)

Of several references the best-matching one counts for each text. The score is the mean over texts,
in per cent; words are lower-cased runs of letters and digits, stemmed (Porter) as is usual.

rouge-score knows the letters a to z only. Where references have others, words are cut here
(tokenizers.py), and the signature says tok:unicode.

Paper: Lin 2004. Computed by the package rouge-score.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, final
from unicodedata import normalize

import numpy as np

from regard.evaluating.score import (
    MeasuredScore,
    MetricScore,
    TextLists,
    Texts,
    check_texts,
    mean,
    reference_counts,
)
from regard.evaluating.tokenizers import unicode_words

SCORES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
MAX_FOREIGN_SHARE = 0.005
"""How much of the references' letters may lie outside ASCII before words are cut here: an English
text, with a name or a café now and then, keeps the scores that others compute."""


def measured_rouge(hypotheses: Texts, references: TextLists) -> tuple[MeasuredScore, ...]:
    """ROUGE-1, ROUGE-2 and ROUGE-L, with what each text adds to them.

    >>> round(measured_rouge(["the cat sat"], [["the cat sat down"]])[0].score.value, 1)
    85.7
    """
    check_texts("rouge", hypotheses, references)
    is_foreign = _is_foreign(references)
    scorer = _scorer(is_foreign=is_foreign)
    found = [
        scorer.score_multi(list(answers), text)
        for text, answers in zip(hypotheses, references, strict=True)
    ]
    tokens = "|tok:unicode" if is_foreign else ""
    signature = (
        f"{reference_counts(references)}|F1|stem:porter{tokens}|"
        f"rouge-score:{version('rouge-score')}"
    )
    return tuple(_measured(name, found, signature) for name in SCORES)


def _measured(name: str, found: Sequence[Any], signature: str) -> MeasuredScore:
    rows = np.array([[100 * each[name].fmeasure, 1.0] for each in found])
    return MeasuredScore(MetricScore(SCORES[name], mean(rows.sum(axis=0)), signature), rows, mean)


def _is_foreign(references: TextLists) -> bool:
    """Whether the share of letters outside ASCII exceeds `MAX_FOREIGN_SHARE`."""
    text = normalize("NFC", "".join(answer for answers in references for answer in answers))
    letters = Counter(char.isascii() for char in text if char.isalpha())
    return letters[False] > MAX_FOREIGN_SHARE * letters.total()


@final
class ScriptTokenizer:
    """Words of every script; `plain`, rouge-score's own tokeniser, stems those of a to z."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def tokenize(self, text: str) -> list[str]:
        """The words of a text; those of ASCII letters are stemmed."""
        words = unicode_words(text)
        stemmed = (self._plain.tokenize(word) if word.isascii() else [word] for word in words)
        return [word for some in stemmed for word in some]


@lru_cache(maxsize=2)
def _scorer(*, is_foreign: bool) -> Any:
    # imported here, since it takes a second and few callers need it
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    plain = DefaultTokenizer(use_stemmer=True)
    return RougeScorer(list(SCORES), tokenizer=ScriptTokenizer(plain) if is_foreign else plain)
