"""Loss and perplexity: how surprised a model is by the right answer.

    loss = −(1/N) Σ ln p(token),   perplexity = exp(loss)

Both depend on what a token is, so only models that share a tokeniser may be compared by them.
"""

import math

from regard.errors import SettingError
from regard.evaluating.score import Score


def loss_and_perplexity(nats: float, tokens: int, *, unit: str = "sub-word") -> tuple[Score, Score]:
    """Turn a summed negative log-likelihood into the two numbers people quote.

    >>> [str(score) for score in loss_and_perplexity(20.0, 10)]
    ['loss 2.00 (nats|per:sub-word|tokens:10)', 'perplexity 7.39 (per:sub-word|tokens:10)']

    Args:
        nats: the sum of −ln p over all target tokens.
        tokens: how many target tokens, the end of each sentence included.
        unit: what a token is.
    """
    if tokens < 1:
        raise SettingError(f"perplexity: expected at least one token, got {tokens}.")
    loss = nats / tokens
    said = f"per:{unit}|tokens:{tokens}"
    return Score("loss", loss, f"nats|{said}"), Score("perplexity", perplexity(loss), said)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats; infinite where no float holds it.

    >>> round(perplexity(2.0), 3), perplexity(1e9)
    (7.389, inf)
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
