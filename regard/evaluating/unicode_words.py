"""Words of texts in every script, for scores that count words.

    "Größe: 你好 world_2"   →   größe  你  好  world  2

A word is a run of letters, their marks, and digits, in lower case. Scripts that put no spaces
between words (Chinese, Japanese, Thai and their neighbours) have a word for each letter.
"""

import re
import unicodedata
from functools import lru_cache

from regard.evaluating.tokenizers import HAN, KANA, UNSPACED

ALONE = re.compile(f"[{HAN}{KANA}{UNSPACED}]")


def unicode_words(text: str) -> list[str]:
    """The words of a text; a letter with its accent is one letter, however it is encoded.

    >>> unicode_words("Größe: 你好 world_2")
    ['größe', '你', '好', 'world', '2']
    """
    words: list[str] = []
    before = "other"
    for char in unicodedata.normalize("NFC", text.lower()):
        kind = _kind(char)
        if kind == "mark":
            # on a sign that is no word it says nothing
            if before != "other":
                words[-1] += char
            continue
        if kind == before == "letter":
            words[-1] += char
        elif kind != "other":
            words.append(char)
        before = kind
    return words


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """What a character is in a word: a letter or digit, one that stands alone, a mark, or other."""
    category = unicodedata.category(char)[0]
    if category == "M":
        return "mark"
    if category not in "LN":
        return "other"
    return "alone" if ALONE.match(char) else "letter"
