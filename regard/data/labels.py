"""Labels: the closed set of answers of a labelling run, one piece of a vocabulary for each.

    of texts   one label for a text, all of it: "very good" is one label
    of words   one label for each word, between spaces

The numbers of labels come after the special pieces, the most frequent label first. A label that the
training data do not have is the unknown piece.
"""

from typing import Any

from tokenizers import Tokenizer, normalizers, pre_tokenizers

from regard.data.subword_kinds import WORDS, Kind, WordLevel, with_specials

LABELS_FILE = "labels.json"
"""The name of the set in a run."""
MAX_LABELS = 1 << 16
"""The most labels that a set has; rarer ones are unknown."""


def labels_in(text: str, *, of_words: bool) -> list[str]:
    """The labels of a text: of its words, or of all of it.

    >>> labels_in(" very good ", of_words=False), labels_in("DET NOUN", of_words=True)
    (['very good'], ['DET', 'NOUN'])
    """
    return text.split() if of_words else _whole(text)


def _built(model: Any) -> Tokenizer:
    # a label in two lines is two pieces, and so is refused
    tokenizer = with_specials(model, pre_tokenizers.CharDelimiterSplit("\n"), None)
    tokenizer.normalizer = normalizers.Strip()
    return tokenizer


def _whole(text: str) -> list[str]:
    return [text.strip()] if text.strip() else []


_LABELS = WordLevel("label", _whole, _built)
LABELS_OF_TEXTS = Kind(
    "label", _LABELS.learn, _LABELS.rebuild, str, " ".join,
    model="WordLevel", cut="CharDelimiterSplit",
)  # fmt: skip
LABELS_OF_WORDS = WORDS
