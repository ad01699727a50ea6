"""How captions are read before words are counted: is a capital a difference, is a full stop a word?

Captions of photographs are written by many hands: some end in a full stop, some do not. The field
scores them lower-cased and without punctuation; a full stop that counts as a word is one that every
system gets right, and lifts BLEU-1 by some two points. A score's signature says what was taken.
"""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SIGNS = frozenset("&%#@*/\\")
"""Unicode calls them punctuation, but they stand for words."""
QUOTES = frozenset("`´")
"""Unicode calls them symbols, but they are written for quotation marks."""


@dataclass(frozen=True)
class Reading:
    """Which differences between two captions count."""

    is_cased: bool
    has_punctuation: bool

    @property
    def case(self) -> str:
        """As sacreBLEU's signatures say it."""
        return "mixed" if self.is_cased else "lc"

    def said(self, tokenizer: str) -> str:
        """The tokeniser's part of a signature.

        >>> READINGS["lower"].said("13a"), READINGS["bare"].said("13a")
        ('13a', '13a-nopunct')
        """
        return tokenizer if self.has_punctuation else f"{tokenizer}-nopunct"

    def words(self, text: str, split: Callable[[str], str]) -> list[str]:
        """The words of a text, as a tokeniser of sacreBLEU splits it.

        >>> READINGS["bare"].words("A man , a plan .", str)
        ['a', 'man', 'a', 'plan']
        """
        told = split((text if self.is_cased else text.lower()).rstrip()).split()
        return [word for word in told if self.has_punctuation or not is_punctuation(word)]


READINGS: Mapping[str, Reading] = {
    "cased": Reading(is_cased=True, has_punctuation=True),
    "lower": Reading(is_cased=False, has_punctuation=True),
    "bare": Reading(is_cased=False, has_punctuation=False),
}
"""By name, the strictest first."""


def is_punctuation(word: str) -> bool:
    """Whether a word has neither letter nor digit nor a sign that is read aloud.

    >>> [word for word in ("dog", ".", "...", "man's", "&", "“", "。") if is_punctuation(word)]
    ['.', '...', '“', '。']
    """
    return all(
        sign in QUOTES or (unicodedata.category(sign).startswith("P") and sign not in SIGNS)
        for sign in word
    )
