"""CIDEr-D: the n-grams that a caption shares with its references, rare ones counting more.

    CIDEr-D(c, S) = 10/4 Σₙ 1/m Σⱼ  e^(−(l(c) − l(sⱼ))² / 2σ²) · min(g(c), g(sⱼ))·g(sⱼ)
                                    / (‖g(c)‖ ‖g(sⱼ)‖),   n = 1 … 4, j = 1 … m, σ = 6
    gₖ(s) = hₖ(s) · ln(|I| / max(1, dₖ))

with hₖ(s) how often n-gram k stands in caption s, dₖ in how many of the |I| pictures it stands in
some reference, l the length in words, and the mean over pictures as the corpus's score. A caption
of fewer than four words has no 4-grams and loses their quarter.

The number that papers call CIDEr is CIDEr-D as COCO's tool computes it; many print a hundred times
it. As in that tool, hₖ is a plain count (the paper divides by the number of n-grams), the score is
multiplied by 10, an n-gram that no reference has counts as if one picture had it, and words are not
stemmed. Other than there, words come from sacreBLEU's tokeniser (13a, lower-cased and without
punctuation), not from the Penn Treebank's, which makes two words of "man's".

Paper: Vedantam, Zitnick & Parikh 2015.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from regard.evaluating.sacrebleu_metrics import words
from regard.evaluating.score import (
    MeasuredScore,
    MetricScore,
    TextLists,
    Texts,
    check_texts,
    mean,
    reference_counts,
)
from regard.evaluating.tokenizers import chosen_tokenizer

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0
SCALE = 10.0

Ngram = tuple[str, ...]


class _Weighed(NamedTuple):
    """A caption as a vector of tf-idf weights for each order, with their norms."""

    vectors: tuple[dict[Ngram, float], ...]
    norms: tuple[float, ...]
    length: int


def measured_cider_d(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> MeasuredScore:
    """CIDEr-D, from 0 to 10, with what each caption adds to it.

    Longer captions and repeated words gain nothing. Subsets keep the corpus's frequencies.

    >>> said = ["a dog runs on grass", "two men play chess"]
    >>> wanted = [["A dog runs on grass."], ["Two men play a game."]]
    >>> round(measured_cider_d(said, wanted).score.value, 2)
    7.14
    """
    check_texts("cider_d", hypotheses, references)
    chosen = chosen_tokenizer(tokenizer, references)
    said = words(hypotheses, chosen.name, is_bare=True)
    wanted = [words(answers, chosen.name, is_bare=True) for answers in references]
    frequency = Counter(gram for answers in wanted for gram in _distinct(answers))
    values = []
    for told, answers in zip(said, wanted, strict=True):
        own = _weigh(told, frequency, len(wanted))
        found = sum(_likeness(own, _weigh(each, frequency, len(wanted))) for each in answers)
        values.append([SCALE * found / len(answers), 1.0])
    notes = [chosen.note] if chosen.note else []
    if len(references) == 1:
        notes.append("one picture tells no rare word from a common one: the score is always 0")
    signature = (
        f"{reference_counts(references)}|case:lc|tok:{chosen.name}-nopunct"
        f"|stem:no|ngrams:1-4|idf:{len(references)}|scale:{SCALE:g}|sigma:{SIGMA:g}|clip:yes"
    )
    rows = np.array(values)
    score = MetricScore("CIDEr-D", mean(rows.sum(axis=0)), signature, "; ".join(notes))
    return MeasuredScore(score, rows, mean)


def _weigh(told: Sequence[str], frequency: Counter[Ngram], n_pictures: int) -> _Weighed:
    vectors = tuple(
        {
            gram: count * math.log(n_pictures / max(1, frequency[gram]))
            for gram, count in Counter(_ngrams(told, order)).items()
        }
        for order in ORDERS
    )
    norms = tuple(math.sqrt(sum(w * w for w in own.values())) for own in vectors)
    return _Weighed(vectors, norms, len(told))


def _likeness(caption: _Weighed, reference: _Weighed) -> float:
    """The mean cosine over orders, with clipped repetitions and a penalty on length differences."""
    parts = zip(caption.vectors, reference.vectors, caption.norms, reference.norms, strict=True)
    found = (
        sum(
            min(weight, other.get(gram, 0.0)) * other.get(gram, 0.0) for gram, weight in own.items()
        )
        / (norm * length)
        for own, other, norm, length in parts
        if norm and length
    )
    fine = math.exp(-((caption.length - reference.length) ** 2) / (2 * SIGMA**2))
    return fine * (sum(found) / len(ORDERS))


def _distinct(answers: Sequence[Sequence[str]]) -> set[Ngram]:
    return {gram for told in answers for order in ORDERS for gram in _ngrams(told, order)}


def _ngrams(told: Sequence[str], order: int) -> Iterator[Ngram]:
    return zip(*(told[start:] for start in range(order)), strict=False)
