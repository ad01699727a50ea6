"""CIDEr-D as the paper's equation reads, on texts whose words are split by spaces.

Slow and plain: every n-gram of the corpus has its place in a vector, and vectors are lists.
"""

import math


def cider_d(hypotheses, references, sigma=6.0):
    """Term frequencies are counts, as the field's tool has them."""

    def alike(caption, reference, c, s):
        clipped = [min(x, y) for x, y in zip(c, s, strict=True)]
        apart = len(caption.split()) - len(reference.split())
        gauss = math.exp(-(apart**2) / (2 * sigma**2))
        return gauss * _over(_dot(clipped, s), _length(c) * _length(s))

    return _mean_over_pictures(hypotheses, references, alike)


def _mean_over_pictures(hypotheses, references, alike):
    total = 0.0
    for hypothesis, answers in zip(hypotheses, references, strict=True):
        for n in (1, 2, 3, 4):
            texts = [*hypotheses, *(text for some in references for text in some)]
            grams = sorted({gram for text in texts for gram in _grams(text, n)})
            rarity = [_idf(gram, references, n) for gram in grams]
            for answer in answers:
                c, s = (
                    [x * y for x, y in zip(_counts(text, grams, n), rarity, strict=True)]
                    for text in (hypothesis, answer)
                )
                total += 10 * alike(hypothesis, answer, c, s) / len(answers) / 4
    return total / len(hypotheses)


def _idf(gram, references, n):
    holding = 0
    for answers in references:
        holding += min(1, sum(_grams(text, n).count(gram) for text in answers))
    return math.log(len(references) / max(1, holding))


def _grams(text, n):
    words = text.split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _counts(text, grams, n):
    return [_grams(text, n).count(gram) for gram in grams]


def _dot(c, s):
    return sum(x * y for x, y in zip(c, s, strict=True))


def _length(c):
    return math.sqrt(_dot(c, c))


def _over(top, bottom):
    return top / bottom if bottom else 0.0
