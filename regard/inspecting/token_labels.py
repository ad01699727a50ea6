"""Tokens as people read them: pieces with visible spaces, and the words they belong to.

A word is a run of letters, marks and digits, a run of other signs, or one character of a script
that is written without spaces. A space belongs to the word after it; a special token is a word of
its own. So every piece belongs to exactly one word, and merging pieces to words loses no weight.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from regard.data.kinds import SPECIALS, UNKNOWN
from regard.data.subwords import Subwords

SPACE = "▁"
"""How a space is shown, so that one sees where a word starts."""
SEEN = {
    **{chr(code): chr(0x2400 + code) for code in range(32)},
    **dict.fromkeys(map(chr, [*range(0x7F, 0xA0), *range(0x202A, 0x202F)]), UNKNOWN),
    **dict.fromkeys(map(chr, range(0x2066, 0x206A)), UNKNOWN),
}
"""What is shown for characters that command a terminal or turn the order of what follows."""
WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x31FF),  # Chinese radicals, kana
    (0x3400, 0x9FFF),  # Chinese
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Characters, from the first to the last, of scripts in which each is a word of its own."""

Span = tuple[int, int]
"""Characters of a text, from the first to behind the last."""


@final
@dataclass(frozen=True)
class Tokens:
    """One side of a map: its pieces, and the words they make."""

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    """The word that each piece belongs to."""
    names: tuple[str, ...]
    """The words."""
    specials: frozenset[int] = frozenset()
    """Words that are no words: begin, end, padding."""

    @classmethod
    def of(cls, text: str, pieces: Sequence[tuple[str, Span | None]]) -> "Tokens":
        """Find the words.

        >>> tokens = Tokens.of("to be", [("to", (0, 2)), (" b", (2, 4)), ("e", (4, 5))])
        >>> tokens.pieces, tokens.words, tokens.names
        (('to', '▁b', 'e'), (0, 1, 1), ('to', 'be'))

        Args:
            text: what the pieces were cut from.
            pieces: each with the characters it covers; None for one that covers none.
        """
        numbers = word_numbers(text)
        words: list[int] = []
        covered: list[Span | None] = []
        names: list[str] = []
        last: int | None = None
        for piece, span in pieces:
            word = None if span is None else numbers[min(_first(text, span), len(numbers) - 1)]
            if word is None or word != last:
                covered.append(span)
                names.append(piece)
            elif (before := covered[-1]) is not None and span is not None:
                covered[-1] = (before[0], max(before[1], span[1]))
            words.append(len(covered) - 1)
            last = word
        said = [
            piece if span is None else visible(text[slice(*span)].strip()) or SPACE
            for piece, span in zip(names, covered, strict=True)
        ]
        return cls(
            tuple(visible(piece) for piece, _ in pieces),
            tuple(words),
            tuple(said),
            frozenset(number for number, span in enumerate(covered) if span is None),
        )

    @classmethod
    def numbered(cls, name: str, count: int) -> "Tokens":
        """Nameless places, such as the slots of a shortened memory."""
        names = tuple(f"{name} {number}" for number in range(1, count + 1))
        return cls(names, tuple(range(count)), names)

    def __len__(self) -> int:
        return len(self.pieces)


def read_text(
    subwords: Subwords, text: str, *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> Tokens:
    """A text as a model reads it, special tokens around it; unknown words keep their letters."""
    ids = subwords.encode(text)
    spans = subwords.offsets(text)
    pieces = [(subwords.readable(i), span) for i, span in zip(ids, spans, strict=True)]
    first, last = ([(SPECIALS[i], None) for i in some] for some in (before, after))
    return Tokens.of(text, [*first, *pieces, *last])


def read_ids(
    subwords: Subwords, ids: Sequence[int], *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> Tokens:
    """What a model wrote, however it cut it, with special tokens around it."""
    text = subwords.decode(ids)
    spans = spans_of(subwords, ids, text)
    pieces = [(subwords.readable(i), span) for i, span in zip(ids, spans, strict=True)]
    first, last = ([(SPECIALS[i], None) for i in some] for some in (before, after))
    return Tokens.of(text, [*first, *pieces, *last])


def visible(piece: str) -> str:
    """A harmless piece whose spaces are seen.

    >>> visible(" be"), visible("<eos>")
    ('▁be', '<eos>')
    """
    return "".join(SPACE if c.isspace() else SEEN.get(c, c) for c in piece)


def harmless(text: str) -> str:
    r"""A text whose control characters are seen and do nothing to a terminal.

    >>> harmless("\x1b[1m bold")
    '␛[1m bold'
    """
    return "".join(SEEN.get(character, character) for character in text)


def word_numbers(text: str) -> list[int]:
    """The number of the word that each character belongs to.

    >>> word_numbers("to be, 3月")
    [0, 0, 1, 1, 1, 2, 3, 3, 4]
    """
    numbers: list[int] = []
    word, before, is_open = -1, "", False
    for character in text:
        if character.isspace():
            is_open = False
            numbers.append(word + 1)
            continue
        kind = next((name for name, holds in SORTS if holds(character)), "sign")
        is_open = is_open and (kind == "mark" or (kind == before and kind != "alone"))
        word, is_open = word + (not is_open), True
        before = before if kind == "mark" else kind
        numbers.append(word)
    return [min(number, max(word, 0)) for number in numbers]


def _is_alone(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in WITHOUT_SPACES)


SORTS: Sequence[tuple[str, Callable[[str], bool]]] = (
    ("mark", lambda character: unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")),
    ("alone", _is_alone),
    ("letter", lambda character: unicodedata.category(character)[0] in "LN"),
)
"""Sorts of characters; what is none of these is a sign."""


def _first(text: str, span: Span) -> int:
    """The first character of a span that is no space; its last one where there is none."""
    start, end = span
    return next((i for i in range(start, end) if not text[i].isspace()), max(start, end - 1))


def spans_of(subwords: Subwords, ids: Sequence[int], text: str) -> list[Span]:
    """The characters that each piece covers; one spelt byte by byte belongs to all its pieces."""
    spans: list[Span] = []
    at = 0
    for some in _whole(subwords, ids):
        said = subwords.decode(some)
        # words are joined by a space that no piece holds
        start = max(at, text.find(said, at, at + len(said) + 1))
        at = min(start + len(said), len(text))
        spans += [(start, at)] * len(some)
    return spans


def _whole(subwords: Subwords, ids: Sequence[int]) -> list[list[int]]:
    """The pieces one by one, but those together that spell one character."""
    together: list[list[int]] = []
    for i in ids:
        if together and _spells_on(subwords, together[-1], i):
            together[-1].append(i)
        else:
            together.append([i])
    return together


def _spells_on(subwords: Subwords, begun: Sequence[int], i: int) -> bool:
    """Whether a piece goes on with a character of which those before it are the first bytes.

    Together they then read as fewer unknown characters than apart.
    """
    before = subwords.decode(begun)
    if not before.endswith(UNKNOWN):
        return False
    apart = before + subwords.decode([i])
    return subwords.decode([*begun, i]).count(UNKNOWN) < apart.count(UNKNOWN)
