"""Tokens as they are shown: pieces with visible spaces, and the words that they belong to.

A word is a run of letters, marks and digits, a run of other signs, or one character of a script
that is written without spaces. A space belongs to the word after it; a special token is a word of
its own. So every piece belongs to exactly one word, and merging pieces to words loses no weight.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

from regard.data.subword_kinds import UNK, UNKNOWN
from regard.data.subwords import Subwords
from regard.errors import SettingError
from regard.evaluating.attention_links import LEFT_OUT

SPACE = "▁"
"""How a space is shown, so that the beginnings of words are visible."""
SHOWN_FOR = {
    **{chr(code): chr(0x2400 + code) for code in range(32)},
    **dict.fromkeys(map(chr, [*range(0x7F, 0xA0), *range(0x202A, 0x202F)]), UNKNOWN),
    **dict.fromkeys(map(chr, range(0x2066, 0x206A)), UNKNOWN),
}
"""What is shown for characters that control a terminal or reverse the direction of text."""
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
    """The numbers of the special tokens: begin, end, padding."""

    @classmethod
    def of(cls, text: str, pieces: Sequence[tuple[str, Span | None]]) -> "Tokens":
        """Find the words.

        >>> tokens = Tokens.of("to be", [("to", (0, 2)), (" b", (2, 4)), ("e", (4, 5))])
        >>> tokens.pieces, tokens.words, tokens.names
        (('to', '▁b', 'e'), (0, 1, 1), ('to', 'be'))

        Each piece has the characters of the text that it covers, or None.
        """
        numbers = word_numbers(text)
        # a special token is a word of its own, whatever stands beside it
        keys = [
            ("special", i) if span is None else numbers[min(_first(text, span), len(numbers) - 1)]
            for i, (_, span) in enumerate(pieces)
        ]
        words: list[int] = []
        names: list[str] = []
        specials: set[int] = set()
        for number, (_, places) in enumerate(groupby(range(len(pieces)), keys.__getitem__)):
            group = [pieces[i] for i in places]
            spans = [span for _, span in group if span is not None]
            words += [number] * len(group)
            if spans:
                covered = text[spans[0][0] : max(end for _, end in spans)]
                names.append(visible(covered.strip()) or SPACE)
            else:
                specials.add(number)
                names.append(group[0][0])
        shown = tuple(visible(piece) for piece, _ in pieces)
        return cls(shown, tuple(words), tuple(names), frozenset(specials))

    @classmethod
    def joined(cls, places: "Sequence[tuple[Tokens, int]]") -> "Tokens":
        """Pieces of several texts in one row; a word of one text is none of another."""
        keys = [(id(side), side.words[place]) for side, place in places]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        names = {numbers[id(s), s.words[i]]: s.names[s.words[i]] for s, i in places}
        specials = {numbers[id(s), s.words[i]] for s, i in places if s.words[i] in s.specials}
        return cls(
            tuple(side.pieces[place] for side, place in places),
            tuple(numbers[key] for key in keys),
            tuple(names[number] for number in range(len(numbers))),
            frozenset(specials),
        )

    @classmethod
    def numbered(cls, name: str, count: int) -> "Tokens":
        """Places without a text, such as the slots of a shortened memory."""
        names = tuple(f"{name} {number}" for number in range(1, count + 1))
        return cls(names, tuple(range(count)), names)

    @property
    def special_pieces(self) -> frozenset[int]:
        """The places of the special tokens."""
        return frozenset(i for i, word in enumerate(self.words) if word in self.specials)

    def as_json(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "pieces": list(self.pieces),
            "words": list(self.words),
            "names": list(self.names),
            "specials": sorted(self.specials),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Tokens":
        """The tokens that `as_json` gave."""
        pieces, words, names = (tuple(plain[name]) for name in ("pieces", "words", "names"))
        return cls(pieces, words, names, frozenset(plain["specials"]))

    def __len__(self) -> int:
        return len(self.pieces)


def read_text(
    subwords: Subwords, text: str, *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> Tokens:
    """A text as a model reads it, special tokens around it; unknown words keep their letters."""
    return _read(subwords, text, subwords.encode(text), subwords.offsets(text), before, after)


def read_ids(
    subwords: Subwords, ids: Sequence[int], *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> Tokens:
    """The tokens that a model wrote, with its own segmentation and special tokens around them."""
    text = subwords.decode(ids)
    return _read(subwords, text, ids, spans_of(subwords, ids, text), before, after)


def _read(
    subwords: Subwords,
    text: str,
    ids: Sequence[int],
    spans: Sequence[Span],
    before: Sequence[int],
    after: Sequence[int],
) -> Tokens:
    called = subwords.kind.special_names
    pieces = [
        (
            called[UNK] if i == UNK else subwords.readable(i),
            None if i in subwords.framing else span,
        )
        for i, span in zip(ids, spans, strict=True)
    ]
    first, last = ([(called[i], None) for i in some] for some in (before, after))
    return Tokens.of(text, [*first, *pieces, *last])


def words_of(text: str, offsets: Sequence[Span]) -> list[int]:
    """The word that each piece of a text belongs to, words being what stands between spaces.

    >>> words_of("to be, or", [(0, 2), (2, 5), (5, 6), (6, 9)])
    [0, 1, 1, 2]
    """
    word_at, count = [], 0
    for before, here in zip(" " + text, text, strict=False):
        count += before.isspace() and not here.isspace()
        word_at.append(LEFT_OUT if here.isspace() else count - 1)
    inside = [[word for word in word_at[start:end] if word != LEFT_OUT] for start, end in offsets]
    # a piece that is only a space belongs to no word
    return [words[0] if words else LEFT_OUT for words in inside]


def visible(piece: str) -> str:
    """A piece made harmless, with visible spaces.

    >>> visible(" be"), visible("<eos>")
    ('▁be', '<eos>')
    """
    return "".join(SPACE if c.isspace() else SHOWN_FOR.get(c, c) for c in piece)


def harmless(text: str) -> str:
    r"""A text with its control characters replaced by visible signs, safe for a terminal.

    >>> harmless("\x1b[1m bold")
    '␛[1m bold'
    """
    return "".join(SHOWN_FOR.get(character, character) for character in text)


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
"""Classes of characters; every other character is a sign."""


def _first(text: str, span: Span) -> int:
    """The place of the first character of a span that is not a space, else of its last one."""
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
    """Groups of pieces: one piece each, or the pieces whose bytes spell one character."""
    together: list[list[int]] = []
    for i in ids:
        if together and _spells_on(subwords, together[-1], i):
            together[-1].append(i)
        else:
            together.append([i])
    return together


def _spells_on(subwords: Subwords, begun: Sequence[int], i: int) -> bool:
    """Whether a piece continues a character whose first bytes are in the pieces before it.

    If so, they decode to fewer unknown characters together than apart.
    """
    before = subwords.decode(begun)
    if not before.endswith(UNKNOWN):
        return False
    apart = before + subwords.decode([i])
    return subwords.decode([*begun, i]).count(UNKNOWN) < apart.count(UNKNOWN)


def check_names(names: object) -> None:
    """Refuse names of tokens that are no lists of texts: a text, one list alone, or ids."""
    sides: Any = [names] if isinstance(names, str) or not isinstance(names, Sequence) else names
    if not any(isinstance(side, str) or not isinstance(side, Sequence) for side in sides) and all(
        isinstance(name, str) for side in sides for name in side
    ):
        return
    raise SettingError(
        f"capture: names must be lists of tokens, got {names!r:.40}. Write names=[tokens], or "
        "names=[source, target]; tokenizer.convert_ids_to_tokens makes tokens of ids."
    )
