"""Texts that fit a model: cut into tokens, or refused, without being cut where that is certain."""

from collections.abc import Callable

from regard.data.subwords import Subwords
from regard.errors import LengthError
from regard.tasks.predictions import Request

Refusal = Callable[[str, int], LengthError]
"""An error of how many tokens a text has, in words, and the most that a model takes."""


def encode_fitting(subwords: Subwords, text: str, longest: int, refusal: Refusal) -> list[int]:
    """The tokens of a text, without the end token.

    Args:
        subwords: cut it.
        text: as the model reads or writes it.
        longest: the most tokens that the model takes, the end token counted.
        refusal: what is raised where there are more.
    """
    fewest = subwords.fewest(text) + 1
    if fewest > longest:
        raise refusal(f"at least {fewest:,}", longest)
    tokens = subwords.encode(text)
    if len(tokens) >= longest:
        raise refusal(f"{len(tokens) + 1:,}", longest)
    return tokens


def text_refusal(request: Request, remedy: str) -> Refusal:
    """Of a text that a model should read, and what to do about it."""
    return lambda n_tokens, longest: LengthError(
        f"{request.name} has {n_tokens} tokens, but the model reads at most {longest:,} "
        f"(model.max_len, the end token counted): '{request.text[:40]}…'. Shorten it, or {remedy}."
    )


def answer_refusal(n_tokens: str, longest: int) -> LengthError:
    """Of an answer that a model should have written."""
    return LengthError(
        f"look: the answer has {n_tokens} tokens, but the model writes at most {longest:,} "
        "(model.max_len, the end token counted)."
    )
