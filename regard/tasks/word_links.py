"""Word links: the source word that each word of an answer attends to most.

An unknown word of an answer is replaced by dictionary(s), else by s itself, with s the source word
most looked at.

Paper: Luong, Sutskever, Le, Vinyals & Zaremba 2015; Luong, Pham & Manning 2015.
"""

from collections.abc import Iterable, Mapping, Sequence

from regard.attention import AttentionMap
from regard.data.subword_kinds import EOS, UNKNOWN, WORDS
from regard.decoding import Hypothesis
from regard.errors import SettingError
from regard.evaluating.alignment import Link, write_pharaoh
from regard.evaluating.attention_links import (
    LEFT_OUT,
    DecoderRow,
    PieceWords,
    argmax_links,
    merge_pieces,
)
from regard.inspecting.capture import attention_of, crossing, weights_of
from regard.inspecting.token_labels import spans_of, words_of
from regard.tasks.input_format import as_read
from regard.tasks.loaded_run import Loaded


def check_links(loaded: Loaded) -> None:
    """Refuse a run without attention from answer to source, before the long search."""
    _crossing(loaded, [EOS], [])


def links(loaded: Loaded, read: str, tokens: Sequence[int]) -> frozenset[Link]:
    """Links between the words of a normalised text and of an answer, by the mean of all heads."""
    source, target = loaded.source, loaded.target
    written = target.decode(tokens)
    pieces = PieceWords(
        [*words_of(read, source.offsets(read)), LEFT_OUT],
        words_of(written, spans_of(target, tokens, written)),
    )
    weights = weights_of(_crossing(loaded, [*source.encode(read), EOS], tokens)).mean((0, 1))
    words = merge_pieces(weights, pieces, DecoderRow.PREDICTING)
    return argmax_links(words, sorted({*pieces.target} - {LEFT_OUT}))


def alignment(loaded: Loaded, text: str, answer: Hypothesis) -> str:
    """Links to the words of the text as it was given, in Pharaoh format."""
    read, origins = as_read(loaded.recipe, text)
    found = links(loaded, read, answer.tokens)
    return write_pharaoh([{(origins[source], target) for source, target in found}])[0]


def _crossing(
    loaded: Loaded, read: Sequence[int], written: Sequence[int]
) -> tuple[AttentionMap, ...]:
    return crossing(attention_of(loaded.model, read, written), "alignments: the run")


def check_has_unknown_words(loaded: Loaded) -> None:
    """Refuse a run whose tokens are not words."""
    for side in (loaded.source, loaded.target):
        if side.kind.name != WORDS.name:
            raise SettingError(
                f"unknown words: this run's tokens are of kind {side.kind.name}, which has no "
                "unknown words. Leave --replace-unknown out, or train with tokens.kind = "
                f'"{WORDS.name}".'
            )


def replaced(
    written: str, read: Sequence[str], links: Iterable[Link], dictionary: Mapping[str, str]
) -> str:
    """An answer with its unknown words replaced, except those without a link.

    >>> replaced("the \N{REPLACEMENT CHARACTER} sleeps", ["der", "Ara"], [(1, 1)], {})
    'the Ara sleeps'
    """
    source_of = {target: read[source] for source, target in links}
    words = [
        dictionary.get(source_of[place], source_of[place])
        if word == UNKNOWN and place in source_of
        else word
        for place, word in enumerate(written.split(" "))
    ]
    return " ".join(words)
