"""CIDEr: how much of what most people say about a picture a caption says, rare words counting more.

    CIDEr(c, S)   = 10/4 Σₙ 1/m Σⱼ  g(c)·g(sⱼ) / (‖g(c)‖ ‖g(sⱼ)‖),   n = 1 … 4, j = 1 … m
    CIDEr-D(c, S) = 10/4 Σₙ 1/m Σⱼ  e^(−(l(c) − l(sⱼ))² / 2σ²) · min(g(c), g(sⱼ))·g(sⱼ)
                                    / (‖g(c)‖ ‖g(sⱼ)‖),   σ = 6
    gₖ(s) = hₖ(s) · ln(|I| / max(1, dₖ))

with hₖ(s) how often n-gram k stands in caption s, dₖ in how many of the |I| pictures it stands in
some reference, l the length in words, and the mean over pictures as the corpus's score. A caption
of fewer than four words has no 4-grams and loses their quarter.

The number that papers call CIDEr is CIDEr-D as COCO's tool computes it; many print a hundred times
it. As in that tool, hₖ is a plain count (the paper divides by the number of n-grams, which the
cosine does not feel but the minimum does), both scores are multiplied by 10, an n-gram that no
reference has counts as if one picture had it, and words are not stemmed (the paper stems for CIDEr,
not for CIDEr-D). Other than there, words come from sacreBLEU's tokeniser (13a, lower-cased and
without punctuation unless another reading is asked for), not from the Penn Treebank's, which makes
two words of "man's".

Paper: Vedantam, Zitnick & Parikh 2015.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.choices import find
from regard.evaluating.bleu import words
from regard.evaluating.caption_readings import READINGS
from regard.evaluating.score import Measured, Score, Statistics, check_texts, reference_counts
from regard.evaluating.tokenizers import chosen_tokenizer

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0
SCALE = 10.0

Ngram = tuple[str, ...]
Vector = dict[Ngram, float]


@dataclass(frozen=True)
class Weighed:
    """A caption as a vector of tf-idf weights for each order, with their norms."""

    vectors: tuple[Vector, ...]
    norms: tuple[float, ...]
    length: int


Likeness = Callable[[Weighed, Weighed], float]
"""How alike a caption and a reference are, from 0 to 1."""


def cider(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> Score:
    """CIDEr of the corpus, from 0 to 10.

    Args:
        hypotheses: one caption a picture.
        references: all captions that people gave each picture; their number may differ.
        reading: "bare" (lower-cased, no punctuation), "lower" or "cased".
        tokenizer: as for `bleu`.
    """
    return measured_cider(hypotheses, references, reading=reading, tokenizer=tokenizer).score


def cider_d(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> Score:
    """CIDEr-D of the corpus, from 0 to 10: nothing is won by length or by saying a word twice.

    >>> said = ["a dog runs on grass", "two men play chess"]
    >>> round(cider_d(said, [["A dog runs on grass."], ["Two men play a game."]]).value, 2)
    7.14

    Args:
        hypotheses: one caption a picture.
        references: all captions that people gave each picture; their number may differ.
        reading: "bare" (lower-cased, no punctuation), "lower" or "cased".
        tokenizer: as for `bleu`.
    """
    return measured_cider_d(hypotheses, references, reading=reading, tokenizer=tokenizer).score


def measured_cider(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> Measured:
    """CIDEr with what each caption adds to it; subsets keep the whole corpus's frequencies."""
    corpus = _read("cider", hypotheses, references, reading, tokenizer)
    return corpus.measured("CIDEr", _cosine, "")


def measured_cider_d(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> Measured:
    """CIDEr-D with what each caption adds to it; subsets keep the whole corpus's frequencies."""
    corpus = _read("cider_d", hypotheses, references, reading, tokenizer)
    return corpus.measured("CIDEr-D", _clipped, f"|sigma:{SIGMA:g}|clip:yes")


@dataclass(frozen=True)
class _Corpus:
    """Captions and references as words, and how they were read."""

    said: list[list[str]]
    wanted: list[list[list[str]]]
    signature: str
    note: str

    def measured(self, name: str, likeness: Likeness, settings: str) -> Measured:
        frequency = Counter(gram for answers in self.wanted for gram in _distinct(answers))
        rare = _Rarity(frequency, len(self.wanted))
        values = []
        for told, answers in zip(self.said, self.wanted, strict=True):
            own = rare.weigh(told)
            found = sum(likeness(own, rare.weigh(answer)) for answer in answers)
            values.append([SCALE * found / len(answers), 1.0])
        rows = np.array(values)
        score = Score(name, _mean(rows.sum(axis=0)), self.signature + settings, self.note)
        return Measured(score, rows, _mean)


@dataclass(frozen=True)
class _Rarity:
    """In how many of the pictures each n-gram stands."""

    frequency: Counter[Ngram]
    n_pictures: int

    def weigh(self, told: Sequence[str]) -> Weighed:
        counts = [Counter(_ngrams(told, order)) for order in ORDERS]
        vectors = tuple(
            {gram: count * self._idf(gram) for gram, count in own.items()} for own in counts
        )
        norms = tuple(math.sqrt(sum(w * w for w in own.values())) for own in vectors)
        return Weighed(vectors, norms, len(told))

    def _idf(self, gram: Ngram) -> float:
        return math.log(self.n_pictures / max(1, self.frequency[gram]))


def _read(
    who: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    reading: str,
    tokenizer: str | None,
) -> _Corpus:
    check_texts(who, hypotheses, references)
    read = find(reading, READINGS, key="reading")
    chosen = chosen_tokenizer(tokenizer, references)
    notes = [chosen.note] if chosen.note else []
    if len(references) == 1:
        notes.append("one picture tells no rare word from a common one: the score is always 0")
    return _Corpus(
        words(hypotheses, chosen.name, read),
        [words(answers, chosen.name, read) for answers in references],
        f"{reference_counts(references)}|case:{read.case}|tok:{read.said(chosen.name)}"
        f"|stem:no|ngrams:1-4|idf:{len(references)}|scale:{SCALE:g}",
        "; ".join(notes),
    )


def _cosine(caption: Weighed, reference: Weighed) -> float:
    """The mean over orders of the cosine between both vectors."""
    parts = zip(caption.vectors, reference.vectors, caption.norms, reference.norms, strict=True)
    found = (
        sum(weight * other.get(gram, 0.0) for gram, weight in own.items()) / (norm * length)
        for own, other, norm, length in parts
        if norm and length
    )
    return sum(found) / len(ORDERS)


def _clipped(caption: Weighed, reference: Weighed) -> float:
    """The same with repeated words cut to what the reference has, and other lengths fined."""
    kept = tuple(
        {gram: min(weight, other.get(gram, 0.0)) for gram, weight in own.items()}
        for own, other in zip(caption.vectors, reference.vectors, strict=True)
    )
    apart = caption.length - reference.length
    fine = math.exp(-(apart**2) / (2 * SIGMA**2))
    return fine * _cosine(Weighed(kept, caption.norms, caption.length), reference)


def _distinct(answers: Sequence[Sequence[str]]) -> set[Ngram]:
    return {gram for told in answers for order in ORDERS for gram in _ngrams(told, order)}


def _ngrams(told: Sequence[str], order: int) -> Iterator[Ngram]:
    return zip(*(told[start:] for start in range(order)), strict=False)


def _mean(total: Statistics) -> float:
    return float(total[0] / total[1])
