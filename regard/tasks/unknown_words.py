"""Unknown words: what stands in an answer for a word that the vocabulary does not hold.

    each is replaced by dictionary(s), else by s itself, with s the source word most looked at

Paper: Luong, Sutskever, Le, Vinyals & Zaremba 2015; Luong, Pham & Manning 2015.
"""

from collections.abc import Iterable, Mapping, Sequence

from regard.data.kinds import UNKNOWN, WORDS
from regard.errors import SettingError
from regard.evaluating.links import Link
from regard.tasks.loaded import Loaded


def check_has_unknown_words(loaded: Loaded) -> None:
    """Refuse a run whose tokens are no words."""
    for side in (loaded.source, loaded.target):
        if side.kind != WORDS:
            raise SettingError(
                f"unknown words: this run's tokens are of kind {side.kind.name}, which has no "
                "unknown words. Leave --replace-unknown out, or train with tokens.kind = "
                f'"{WORDS.name}".'
            )


def replaced(
    written: str, read: Sequence[str], links: Iterable[Link], dictionary: Mapping[str, str]
) -> str:
    """An answer without unknown words, save those that were read off no word.

    >>> replaced("the \N{REPLACEMENT CHARACTER} sleeps", ["der", "Ara"], [(1, 1)], {})
    'the Ara sleeps'

    Args:
        written: the answer.
        read: the words of the source.
        links: places of words of the source and of the answer.
        dictionary: the translation of a source word.
    """
    source_of = {target: read[source] for source, target in links}
    words = [
        dictionary.get(source_of[place], source_of[place])
        if word == UNKNOWN and place in source_of
        else word
        for place, word in enumerate(written.split(" "))
    ]
    return " ".join(words)
