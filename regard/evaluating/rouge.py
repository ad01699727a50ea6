"""ROUGE: words, pairs of words, and longest common subsequence shared with a reference.

    F1 = 2 P R / (P + R),   P = shared / said,   R = shared / wanted     (of ROUGE-1, -2 and -L)

Of several references each text takes the one that suits it best. The score is the mean over texts,
in per cent; words are lower-cased runs of letters and digits, stemmed (Porter) as is usual.

rouge-score knows the letters a to z only. Where references have others, words are cut here
(unicode_words.py), and the signature says tok:unicode.

Paper: Lin 2004. Computed by the package rouge-score.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, final
from unicodedata import normalize

import numpy as np

from regard.evaluating.score import Measured, Score, check_texts, reference_counts
from regard.evaluating.unicode_words import unicode_words

NAMES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
FOREIGN = 0.005
"""How much of the references' letters may lie outside ASCII before words are cut here: an English
text has a name or a café now and then, and keeps the scores that others compute."""


def rouge(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Score, Score, Score]:
    """ROUGE-1, ROUGE-2 and ROUGE-L.

    >>> print(rouge(["the cat sat"], [["the cat sat down"]])[0].value.__round__(1))
    85.7
    """
    one, two, longest = measured_rouge(hypotheses, references)
    return one.score, two.score, longest.score


def measured_rouge(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Measured, Measured, Measured]:
    """The same with what each text adds, so that two systems can be compared."""
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
    one, two, longest = (_measured(name, found, signature) for name in NAMES)
    return one, two, longest


def _measured(name: str, found: Sequence[Any], signature: str) -> Measured:
    rows = np.array([[100 * each[name].fmeasure, 1.0] for each in found])

    def value(summed: np.ndarray) -> float:
        return float(summed[0] / summed[1]) if summed[1] else 0.0

    return Measured(Score(NAMES[name], value(rows.sum(axis=0)), signature), rows, value)


def _is_foreign(references: Sequence[Sequence[str]]) -> bool:
    """Whether letters outside ASCII are more than a few."""
    text = normalize("NFC", "".join(answer for answers in references for answer in answers))
    letters = Counter(char.isascii() for char in text if char.isalpha())
    return letters[False] > FOREIGN * letters.total()


@final
class EveryScript:
    """Words of every script, as rouge-score asks for them.

    Args:
        plain: its own tokeniser, which knows how words of a to z are stemmed.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def tokenize(self, text: str) -> list[str]:
        """The words of a text; those of ASCII letters are stemmed."""
        words = unicode_words(text)
        stemmed = (self._plain.tokenize(word) if word.isascii() else [word] for word in words)
        return [word for some in stemmed for word in some]


@lru_cache(maxsize=2)
def _scorer(*, is_foreign: bool) -> Any:
    # it takes a second to import, and few ask for it
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    plain = DefaultTokenizer(use_stemmer=True)
    return RougeScorer(list(NAMES), tokenizer=EveryScript(plain) if is_foreign else plain)
