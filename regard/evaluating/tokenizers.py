"""Tokenisers: how metrics split texts into words.

    by sacreBLEU     one of its tokenisers, chosen by the references' script (BLEU, CIDEr-D, ratio)
    bare             captions: lower-cased, without punctuation
    by Unicode       runs of letters in every script (ROUGE of texts that are not in ASCII)

Spaces separate words in most scripts, and mteval's rules ("13a") do the rest. Chinese, Japanese,
Thai and their neighbours write no spaces: counted by 13a, a whole sentence would be one word.

Captions of photographs have many authors: some end in a full stop, some do not. The field scores
them lower-cased and without punctuation; a full stop that counts as a word is right in nearly every
answer, and raises BLEU-1 by some two points. A score's signature names the tokeniser.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from regard.errors import UnknownChoice

KNOWN = ("13a", "intl", "zh", "ja-mecab", "char", "none")
"""Tokenisers that a user may choose: sacreBLEU's, less those that load a model from the network."""

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
KANA = "\u3041-\u309f\u30a1-\u30fa\u30fd-\u30ff\uff66-\uff9f"
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
LONE_CHARACTER = re.compile(f"[{HAN}{KANA}{UNSPACED}]")
SIGNS = frozenset("&%#@*/\\")
"""Unicode classes them as punctuation, but they stand for words."""
QUOTES = frozenset("`´")
"""Unicode classes them as symbols, but they are used as quotation marks."""


@dataclass(frozen=True)
class Tokenizer:
    """A tokeniser's name, and the reason for its choice if it is not the usual one."""

    name: str
    note: str = ""


def _japanese() -> Tokenizer:
    if find_spec("MeCab") is not None and find_spec("ipadic") is not None:
        return Tokenizer("ja-mecab")
    return Tokenizer(
        "char",
        "Japanese scored by characters because MeCab is not installed; for words run "
        "pip install 'sacrebleu[ja]'",
    )


# japanese first: it writes Chinese characters too, but Chinese writes no kana. one letter in ten
# is more kana than a foreign name brings, and less than any Japanese text has. one Chinese
# character is a word, or half of one: a quarter of the letters is most of the text.
SCRIPTS: Sequence[tuple[str, float, Callable[[], Tokenizer]]] = (
    (KANA, 0.1, _japanese),
    (HAN, 0.25, lambda: Tokenizer("zh")),
    (
        UNSPACED,
        0.25,
        lambda: Tokenizer("char", "scored by characters: this script puts no spaces between words"),
    ),
)
"""Letters of a script without spaces, their least share of a text's letters, and its tokeniser."""


def tokenizer_for(references: Sequence[Sequence[str]]) -> Tokenizer:
    """Choose by the letters of the references, so that every system is scored alike.

    >>> tokenizer_for([["A man rides a horse."]]).name, tokenizer_for([["一个人骑马。"]]).name
    ('13a', 'zh')
    """
    text = "".join(answer for answers in references for answer in answers)
    n_letters = sum(char.isalpha() for char in text)
    for letters, share, choose in SCRIPTS:
        if n_letters and len(re.findall(f"[{letters}]", text)) / n_letters >= share:
            return choose()
    return Tokenizer("13a")


def chosen_tokenizer(name: str | None, references: Sequence[Sequence[str]]) -> Tokenizer:
    """The tokeniser of this name; with no name, the one the references need."""
    if name is None:
        return tokenizer_for(references)
    if name not in KNOWN:
        raise UnknownChoice(
            f"tokenizer: there is no {name!r}; choose one of {', '.join(KNOWN)}, or none of them "
            "to have it chosen by the references' script."
        )
    return Tokenizer(name)


def bare_words(text: str, split: Callable[[str], str]) -> list[str]:
    """The words of a caption as `split` cuts it, in small letters and without punctuation.

    >>> bare_words("A man , a plan .", str)
    ['a', 'man', 'a', 'plan']
    """
    return [word for word in split(text.lower().rstrip()).split() if not is_punctuation(word)]


def is_punctuation(word: str) -> bool:
    """Whether a word has neither letter nor digit nor a sign that is read aloud.

    >>> [word for word in ("dog", ".", "...", "man's", "&", "“", "。") if is_punctuation(word)]
    ['.', '...', '“', '。']
    """
    return all(
        sign in QUOTES or (unicodedata.category(sign).startswith("P") and sign not in SIGNS)
        for sign in word
    )


def unicode_words(text: str) -> list[str]:
    """Runs of letters, their marks, and digits, in lower case.

    Scripts that put no spaces between words have a word for each letter. A letter with its accent
    is one letter, however it is encoded.

    >>> unicode_words("Größe: 你好 world_2")
    ['größe', '你', '好', 'world', '2']
    """
    text = unicodedata.normalize("NFC", text.lower())
    kinds = "".join(map(_kind, text))
    # a combining mark after a sign belongs to no word
    return [text[slice(*word.span())] for word in re.finditer("L[LM]*|AM*", kinds)]


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """The class of a character: a letter or digit (L), one that is a word by itself (A), a mark."""
    category = unicodedata.category(char)[0]
    if category not in "LN":
        return "M" if category == "M" else "-"
    return "A" if LONE_CHARACTER.match(char) else "L"
