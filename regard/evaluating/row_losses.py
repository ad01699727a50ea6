"""Loss per token of texts of like length, and loss per word, whatever the sub-words are.

    loss = Σ nats / Σ tokens   over the rows of a class;     per word: Σ nats / Σ words

A sub-word's loss says little to somebody with other sub-words. The nats of a text do not depend on
how it was cut, and neither does its number of words: their quotient can be compared.
"""

from collections.abc import Sequence

import numpy as np

from regard.errors import ShapeError
from regard.evaluating.perplexity import loss_and_perplexity
from regard.evaluating.score import Measured, Score


def measured_loss(nats: Sequence[float], tokens: Sequence[int]) -> Measured:
    """The mean loss, with what each row adds; `buckets.by_length` sorts it by length.

    Args:
        nats: the summed −ln p of each row's target.
        tokens: how many target tokens each row has.
    """
    if len(nats) != len(tokens) or not nats:
        raise ShapeError(
            f"loss: expected nats and tokens of the same rows and at least one, got {len(nats)} "
            f"and {len(tokens)}."
        )
    rows = np.array([nats, tokens], dtype=np.float64).T
    score = loss_and_perplexity(float(rows[:, 0].sum()), int(rows[:, 1].sum()))[0]
    return Measured(score, rows, _mean, is_higher_better=False)


def loss_per_word(nats: float, texts: Sequence[str]) -> tuple[Score, Score]:
    """Loss and perplexity per word between spaces; an end of a line is one where it is written.

    Args:
        nats: the summed −ln p of all texts, over whatever sub-words.
        texts: what was to be said.
    """
    return loss_and_perplexity(nats, sum(len(text.split()) for text in texts), unit="word")


def _mean(summed: np.ndarray) -> float:
    return float(summed[0] / summed[1]) if summed[1] else 0.0
