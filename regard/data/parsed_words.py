"""Parsed words: each word of a text and its head in the dependency tree, in one number.

    From↑3 the↑3 AP↑4 comes↑0     the number of a word's head, counted from 1; 0 is a root
    number = word + V · head      V: size of the vocabulary

So files, batches and searches treat a sentence with its tree as any text, and a model that uses
trees separates word and head again. A word without an arrow is a root; a source of several words
without any arrow has no tree, and is refused.
"""

import re
from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from regard.data.subword_kinds import Kind, WordLevel, with_specials
from regard.errors import DataError

ARROW = "↑"
"""What stands between a word and the number of its head."""
MAX_WORDS = 4096
"""The most words of a sentence."""
MAX_DIGITS = 9
"""Digits of the largest head; a longer number is refused."""
_HEAD = re.compile(f"{ARROW}([0-9]+)$")


def heads_of(text: str) -> list[int]:
    """The head of each word, counted from 1; 0 for a root.

    >>> heads_of("the↑2 cat↑0 sleeps↑2")
    [2, 0, 2]
    """
    words = text.split()
    heads = [_number(found[1]) if (found := _HEAD.search(word)) else 0 for word in words]
    if any(head > len(words) for head in heads) or len(words) > MAX_WORDS:
        raise DataError(
            f"parsed_words: '{text[:40]}' has {len(words)} words; a head lies between 0 and that, "
            f"got {max(heads)}."
        )
    for start in range(len(heads)):
        at = start + 1
        for _ in heads:
            at = heads[at - 1] if at else 0
        if at:
            raise DataError(
                f"parsed_words: the heads of '{text[:40]}' form a circle; every word must reach a "
                "root (0)."
            )
    return heads


def heads_of_source(text: str) -> list[int]:
    """The heads of a source, which must contain its tree."""
    words = text.split()
    odd = next((word for word in words if ARROW in word and not _HEAD.search(word)), None)
    if odd is not None:
        raise DataError(
            f"parsed_words: '{odd[:40]}' has an arrow, but behind it stands no number; expected "
            f"the place of the word's head, 0 for a root, as in The{ARROW}2 cat{ARROW}0."
        )
    if len(words) > 1 and not any(map(_HEAD.search, words)):
        raise DataError(
            f"parsed_words: '{text[:40]}' comes without its tree; expected the number of its head "
            f"behind each word, 0 for a root, as in The{ARROW}2 cat{ARROW}3 sleeps{ARROW}0. A "
            "treebank is read so with has_trees = true."
        )
    return heads_of(text)


def with_heads(words: Sequence[str], heads: Sequence[int]) -> str:
    """A parsed sentence as text."""
    return " ".join(f"{word}{ARROW}{head}" for word, head in zip(words, heads, strict=True))


def _number(digits: str) -> int:
    """A head as a number; one with too many digits is cut, since it is refused anyway."""
    return int(digits if len(digits) <= MAX_DIGITS else "9" * MAX_DIGITS)


def _without_heads(text: str) -> list[str]:
    return [_HEAD.sub("", word) for word in text.split()]


def _built(model: Any) -> Tokenizer:
    # a sequence of one pre-tokenizer: files of this kind are recognised by it
    cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit()])
    tokenizer = with_specials(model, cut, None)
    tokenizer.normalizer = normalizers.Replace(Regex(rf"{ARROW}[0-9]+(?=\s|$)"), "")
    return tokenizer


_WORDS = WordLevel("parsed_words", _without_heads, _built)
PARSED_WORDS = Kind(
    "parsed_words", _WORDS.learn, _WORDS.rebuild, str, " ".join,
    model="WordLevel", cut="Sequence", heads=heads_of, words_are_pieces=True,
)  # fmt: skip
