"""Word alignments of an answer: which source word each target word was read off.

    Wiederaufnahme der Sitzung     0-0 0-1 1-2 …     (Pharaoh format: source-target, from 0)

The pieces that the model reads become words by the spaces of the text; their weights are merged as
`regard.evaluating.heads` does it.
"""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor

from regard.evaluating.heads import LEFT_OUT, Pieces, Row, argmax_links, merge_pieces
from regard.evaluating.links import Link, write_pharaoh


def words_of(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The word that each piece of a text belongs to, words being what stands between spaces.

    >>> words_of("to be, or", [(0, 2), (2, 5), (5, 6), (6, 9)])
    [0, 1, 1, 2]

    Args:
        text: what was cut into pieces.
        offsets: the characters that each piece covers, as `Subwords.offsets` gives them.
    """
    word_at, count = [], 0
    for before, here in zip(" " + text, text, strict=False):
        count += before.isspace() and not here.isspace()
        word_at.append(LEFT_OUT if here.isspace() else count - 1)
    inside = [[word for word in word_at[start:end] if word != LEFT_OUT] for start, end in offsets]
    # a piece that is only a space belongs to no word
    return [words[0] if words else LEFT_OUT for words in inside]


def word_links(
    weights: Float[Tensor, "q k"],
    source: Sequence[int],
    target: Sequence[int],
    *,
    row: Row = Row.PREDICTING,
) -> frozenset[Link]:
    """Link each target word to the source word it looks at most.

    Args:
        weights: of one head, or the mean of several: a row for each step, a column for each piece.
        source: the word of each source piece; `LEFT_OUT` (the end token's) is linked to nothing.
        target: the word of each target piece.
        row: which row speaks for a target piece.
    """
    words = merge_pieces(weights, Pieces(source, target), row)
    return argmax_links(words, sorted({word for word in target if word != LEFT_OUT}))


def pharaoh(links: Iterable[Link]) -> str:
    """One sentence's links in Pharaoh format.

    >>> pharaoh({(1, 2), (0, 0)})
    '0-0 1-2'
    """
    return write_pharaoh([links])[0]
