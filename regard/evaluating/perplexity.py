"""Loss and perplexity of references under a model.

    loss = −(1/N) Σ ln p(token),   perplexity = exp(loss)

Both depend on what a token is, so only models that share a tokeniser may be compared by them. The
nats of a text do not depend on how it was cut, and neither does its number of words: loss per word
can be compared whatever the sub-words are.
"""

import math
from collections.abc import Sequence

import numpy as np

from regard.errors import SettingError, ShapeError
from regard.evaluating.score import MeasuredScore, MetricScore, mean


def loss_and_perplexity(
    nats: float, tokens: int, *, unit: str = "sub-word"
) -> tuple[MetricScore, MetricScore]:
    """Turn a summed negative log-likelihood into loss and perplexity.

    `tokens` counts all target tokens, the end of each sentence included; `unit` names the token.

    >>> [str(score) for score in loss_and_perplexity(20.0, 10)]
    ['loss 2.00 (nats|per:sub-word|tokens:10)', 'perplexity 7.39 (per:sub-word|tokens:10)']
    """
    if tokens < 1:
        raise SettingError(f"perplexity: expected at least one token, got {tokens}.")
    loss, said = nats / tokens, f"per:{unit}|tokens:{tokens}"
    return (
        MetricScore("loss", loss, f"nats|{said}"),
        MetricScore("perplexity", perplexity(loss), said),
    )


def loss_per_word(nats: float, texts: Sequence[str]) -> tuple[MetricScore, MetricScore]:
    """Loss and perplexity per word between spaces; a written end of line counts as a word."""
    return loss_and_perplexity(nats, sum(len(text.split()) for text in texts), unit="word")


def measured_loss(nats: Sequence[float], tokens: Sequence[int]) -> MeasuredScore:
    """The mean loss, with what each row adds; `by_length` sorts it by length.

    Each row has the summed −ln p of its target, and how many target tokens it has.
    """
    if len(nats) != len(tokens) or not nats:
        raise ShapeError(
            f"loss: expected nats and tokens of the same rows and at least one, got {len(nats)} "
            f"and {len(tokens)}."
        )
    rows = np.array([nats, tokens], dtype=np.float64).T
    score = loss_and_perplexity(float(rows[:, 0].sum()), int(rows[:, 1].sum()))[0]
    return MeasuredScore(score, rows, mean, is_higher_better=False)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats; infinite where no float holds it.

    >>> round(perplexity(2.0), 3), perplexity(1e9)
    (7.389, inf)
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
