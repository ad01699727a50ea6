"""Which tokeniser a target text needs before words can be counted.

Spaces separate words in most scripts, and mteval's rules ("13a") do the rest. Chinese, Japanese,
Thai and their neighbours write no spaces: counted by 13a, a whole sentence would be one word.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from regard.errors import UnknownChoice

NAMES = ("13a", "intl", "zh", "ja-mecab", "char", "none")
"""Tokenisers that may be asked for: sacreBLEU's, less those that load a model from the network."""

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
KANA = "\u3041-\u309f\u30a1-\u30fa\u30fd-\u30ff\uff66-\uff9f"
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"


@dataclass(frozen=True)
class Tokenizer:
    """A tokeniser's name, and why it was chosen when it is not the one to expect."""

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


@dataclass(frozen=True)
class Script:
    """A script without spaces: its letters, and the tokeniser for a text in which they prevail."""

    letters: str
    share: float
    """How much of the text's letters must be of this script."""
    choose: Callable[[], Tokenizer]


# japanese first: it writes Chinese characters too, but Chinese writes no kana. one letter in ten
# is more kana than a foreign name brings, and less than any Japanese text has. one Chinese
# character is a word, or half of one: a quarter of the letters is most of the text.
SCRIPTS = (
    Script(KANA, 0.1, _japanese),
    Script(HAN, 0.25, lambda: Tokenizer("zh")),
    Script(
        UNSPACED,
        0.25,
        lambda: Tokenizer("char", "scored by characters: this script puts no spaces between words"),
    ),
)


def tokenizer_for(references: Sequence[Sequence[str]]) -> Tokenizer:
    """Choose by the letters of the references, so that every system is scored alike.

    >>> tokenizer_for([["A man rides a horse."]]).name, tokenizer_for([["一个人骑马。"]]).name
    ('13a', 'zh')
    """
    text = "".join(answer for answers in references for answer in answers)
    letters = sum(char.isalpha() for char in text)
    for script in SCRIPTS:
        found = len(re.findall(f"[{script.letters}]", text))
        if letters and found / letters >= script.share:
            return script.choose()
    return Tokenizer("13a")


def chosen_tokenizer(name: str | None, references: Sequence[Sequence[str]]) -> Tokenizer:
    """The tokeniser of this name; with no name, the one the references need."""
    if name is None:
        return tokenizer_for(references)
    if name not in NAMES:
        raise UnknownChoice(
            f"tokenizer: there is no {name!r}; choose one of {', '.join(NAMES)}, or none of them "
            "to have it chosen by the references' script."
        )
    return Tokenizer(name)
