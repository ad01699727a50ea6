"""Long texts: refused with their length, or cut into pieces that a model can read.

A text that is certainly too long is refused without being cut into tokens, which would take long.
Pieces end where sentences end if that is possible.
"""

import re
from collections.abc import Callable, Sequence

from regard.data.subwords import Subwords
from regard.errors import LengthError
from regard.tasks.predictions import Request

CUTS: Sequence[re.Pattern[str]] = (
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])"),
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、])"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)
"""Where a text may be cut: after sentences, after clauses, between words, between characters."""


def in_pieces(text: str, most: int, length: Callable[[str], int]) -> list[str]:
    """Pieces none of which is longer than `most`; nothing but spaces is lost.

    >>> in_pieces("To be, or not to be? That is the question.", 25, len)
    ['To be, or not to be?', 'That is the question.']
    """
    return _cut(text.strip(), most, length, CUTS)


def _cut(
    text: str, most: int, length: Callable[[str], int], cuts: Sequence[re.Pattern[str]]
) -> list[str]:
    if length(text) <= most or not cuts:
        return [text]
    pieces: list[str] = []
    parts = _parts(text, cuts[0])
    while parts:

        def joined(count: int, first: Sequence[slice] = parts) -> str:
            return text[first[0].start : first[count - 1].stop].strip()

        taken = _most(len(parts), lambda count: length(joined(count)) <= most)
        pieces.append(joined(taken))
        parts = parts[taken:]
    return [part for piece in pieces for part in _cut(piece, most, length, cuts[1:])]


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `count` that fits, and 1 if none does.

    Numbers are doubled until one is too large, and then halved: what is measured on the way is a
    few times as long as what fits, and not the square of it.
    """
    low, step = 1, 1
    while low + step <= count and fits(low + step):
        low, step = low + step, 2 * step
    high = min(low + step, count + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _parts(text: str, cut: re.Pattern[str]) -> list[slice]:
    """The stretches between cuts, each with the space after it."""
    ends = [match.end() for match in cut.finditer(text)]
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]


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
