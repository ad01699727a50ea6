"""Subwords: a vocabulary of pieces, which encodes text to ids and decodes ids to the same text.

    decode(encode(x)) = x    for every text x, under bpe and unigram

Ids 0 to 3 are padding, begin, end and unknown; `encode` gives no begin and no end. Some published
vocabularies put pieces of their own around every text, such as the one of its language; `encode`
gives them and `decode` leaves them out. A source and a target may share one Subwords or have one
each, as the recipe decides.

Paper: Provilkov, Emelianenko & Voita 2020 (BPE-dropout), algorithm 1.
"""

import hashlib
import json
import random as random_numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import final
from unicodedata import east_asian_width

from tokenizers import Encoding, Tokenizer

from regard.data.atomic_writes import write_text
from regard.data.bpe_merges import Dropping, Merging
from regard.data.parsed_words import MAX_WORDS, heads_of_source, with_heads
from regard.data.subword_kinds import (
    BPE,
    BYTES,
    EOS,
    MASK_NUMBER,
    MASK_PIECE,
    PAD,
    SPECIALS,
    UNK,
    UNKNOWN,
    Kind,
)
from regard.data.vocabulary_files import read_vocabulary
from regard.errors import DataError, SettingError


@final
class Subwords:
    """Pieces of text and their numbers."""

    def __init__(
        self,
        kind: Kind,
        tokenizer: Tokenizer,
        *,
        dropping: Dropping | None = None,
        is_marked: bool = False,
    ) -> None:
        self.kind, self.is_marked = kind, is_marked
        self._tokenizer = tokenizer
        self._dropping, self._readable = dropping, dict[int, str]()
        known = tokenizer.get_vocab()
        self._pieces = sorted(known, key=lambda piece: known[piece])

    def __repr__(self) -> str:
        return f"Subwords({len(self):,} pieces of kind {self.kind.name})"

    @classmethod
    def train(cls, texts: Iterable[str], *, kind: Kind = BPE, size: int = 8000) -> "Subwords":
        """Learn a vocabulary of at most `size` pieces from these texts alone.

        >>> subwords = Subwords.train(["to be or not to be"], size=300)
        >>> subwords.tokens("to be or not")
        ['to', ' be', ' or', ' not']
        """
        return cls(kind, kind.learn(_checked(texts), size))

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Read a vocabulary that `save` wrote; anything else is refused."""
        return cls(*read_vocabulary(path))

    def save(self, path: Path) -> None:
        """Write one JSON file, which the tokenizers library reads too."""
        write_text(path, self._tokenizer.to_str(pretty=True))

    def as_json(self) -> str:
        """What `save` writes, in one line."""
        return self._tokenizer.to_str()

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def n_ids(self) -> int:
        """Every number is below it.

        It is words times heads where texts come with their trees, and twice as many pieces where
        the later pieces of a word are marked.
        """
        if self.is_marked:
            return 2 * len(self)
        return len(self) * (1 if self.kind.heads is None else MAX_WORDS + 1)

    @property
    def pieces(self) -> tuple[str, ...]:
        """Every piece as its file writes it, by its number."""
        return tuple(self._pieces)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, independent of its file's name."""
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()

    def encode(
        self, text: str, *, dropout: float = 0.0, random: random_numbers.Random | None = None
    ) -> list[int]:
        """The numbers of a text's pieces.

        With `dropout`, bpe leaves out each merge with that probability, drawn from `random`, so
        that one text is cut in many ways.
        """
        if dropout == 0.0:
            return self._carried(text, self._ids(self._encoding(text)))
        if self.kind.name != BPE.name:
            raise SettingError(
                f"subwords: dropout is bpe's; {self.kind.name} has no merges to leave out."
            )
        if not 0.0 < dropout <= 1.0 or random is None:
            raise SettingError(
                f"subwords: dropout must lie in [0, 1] and needs random=, got {dropout}, {random}."
            )
        return [*self.before, *self._cut(text, dropout, random), *self._frame[1]]

    @property
    def before(self) -> tuple[int, ...]:
        """The pieces that stand before every text, such as that of its language."""
        return self._frame[0]

    @cached_property
    def framing(self) -> frozenset[int]:
        """The pieces that stand around every text, and are no part of it."""
        return frozenset(number for side in self._frame for number in side)

    @cached_property
    def _frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if self._tokenizer.post_processor is None:
            return (), ()
        found = self._tokenizer.encode("a")
        first = found.special_tokens_mask.index(0)
        n_after = sum(found.special_tokens_mask[first:])
        return tuple(found.ids[:first]), tuple(found.ids[len(found.ids) - n_after :])

    def fewest(self, text: str) -> int:
        """A lower bound of how many pieces a text has, found without the slow encoding.

        >>> Subwords.train(["to be or not to be"], size=300).fewest("to be" * 100)
        100
        """
        if not self.kind.covers_all:
            return 0
        # the piece for a hidden word takes the spaces before it
        n_characters = sum(map(len, text.split()))
        return -(-n_characters // self._longest_piece)

    def encode_inside(self, phrase: str) -> list[int]:
        """The numbers of a phrase as it is cut inside a text, where a space stands before it.

        Only kinds that work on bytes keep a word's space in its first piece, and only words that
        are written with spaces have one.
        """
        is_spaced = bool(self.kind.needs) and east_asian_width(phrase[:1] or " ") not in "WF"
        found = self.encode(f" {phrase.lstrip()}" if is_spaced else phrase)
        return found[len(self._frame[0]) : len(found) - len(self._frame[1])]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts at once, on every core."""
        if self._dropping is not None:
            return [self._dropped(text, self._dropping) for text in texts]
        try:
            found = self._tokenizer.encode_batch_fast(texts)
            return [
                self._carried(text, self._ids(encoding))
                for text, encoding in zip(texts, found, strict=True)
            ]
        except TypeError:
            return [self.encode(text) for text in texts]

    def dropping(self, dropping: Dropping) -> "Subwords":
        """The same vocabulary, but `encode_all` cuts texts in many ways (BPE-dropout)."""
        # the first call checks that this kind supports dropout
        self.encode("", dropout=dropping.dropout, random=random_numbers.Random(0))
        same = Subwords(self.kind, self._tokenizer, dropping=dropping, is_marked=self.is_marked)
        same._merging = self._merging
        return same

    def for_sources(self) -> "Subwords":
        """The same vocabulary for sources: if words carry heads, a text without them is refused."""
        if self.kind.heads is None:
            return self
        kind = replace(self.kind, heads=heads_of_source)
        return Subwords(kind, self._tokenizer, dropping=self._dropping)

    def for_tagging(self) -> "Subwords":
        """The same for texts whose words have a label each: a word's later pieces are marked.

        The number of a marked piece is larger by the size of the vocabulary. Words of a text must
        be separated by single spaces.

        >>> subwords = Subwords.train(["to be or not to be"], size=260).for_tagging()
        >>> [number >= len(subwords) for number in subwords.encode("to be")]
        [False, True, True, False, True]
        """
        if self.kind.words_are_pieces:
            return self
        if not self.kind.holds_spaces:
            raise SettingError(
                f"model.task = 'tags' gives a label to each word between spaces, but pieces of "
                f"kind {self.kind.name} do not show where a word begins. Take tokens.kind = 'bpe', "
                "'unigram', 'characters', 'bytes' or 'words'."
            )
        return Subwords(self.kind, self._tokenizer, dropping=self._dropping, is_marked=True)

    @cached_property
    def blank_pieces(self) -> tuple[int, ...]:
        """The pieces that are spaces alone, or empty."""
        texts = enumerate(map(self.kind.read, self._pieces))
        return tuple(number for number, text in texts if text is not None and not text.strip())

    @property
    def has_mask(self) -> bool:
        """Whether there is a piece that stands for a hidden word."""
        return self._pieces[MASK_NUMBER : MASK_NUMBER + 1] == [MASK_PIECE]

    def with_mask(self) -> "Subwords":
        """The same with a piece that stands for a hidden word: [MASK], with number 4.

        >>> Subwords.train(["to be or not to be"], size=300).with_mask().encode("to [MASK]")[1]
        4
        """
        content = json.loads(self._tokenizer.to_str())
        first = self._pieces[:MASK_NUMBER]
        # the letters [MASK] in a text are then no word of their own any more
        rest = [piece for piece in self._pieces[MASK_NUMBER:] if piece != MASK_PIECE]
        pieces = [*first, MASK_PIECE, *rest]
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, dict):
            known: object = {piece: number for number, piece in enumerate(pieces)}
        else:
            lowest = min(score for _, score in vocabulary)
            scores = dict(vocabulary)
            known = [[piece, scores.get(piece, lowest)] for piece in pieces]
        parts = {**content["model"], "vocab": known, "normalizer": content.get("normalizer")}
        return Subwords(self.kind, self.kind.rebuild(parts))

    def decode(self, ids: Iterable[int]) -> str:
        """The text; padding, begin, end and framing are dropped, unknown pieces become U+FFFD."""
        shown = (i for i in ids if i not in self._dropped_pieces)
        return self.kind.join([UNKNOWN if i == UNK else self._piece(i) for i in shown])

    @cached_property
    def _dropped_pieces(self) -> frozenset[int]:
        return self.framing.union(range(PAD, EOS + 1))

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of a source's numbers, with the heads of its words if they carry them."""
        size = len(self)
        text = self.decode(number % size for number in ids)
        if self.kind.heads is None:
            return text
        return with_heads(text.split(), [number // size for number in ids if number != EOS])

    def tokens(self, text: str) -> list[str]:
        """The pieces of a text in readable form; bytes of a character as in <0xE6>."""
        return [self.readable(i) for i in self.encode(text)]

    def readable(self, number: int) -> str:
        """One piece in readable form."""
        if number not in self._readable:
            self._readable[number] = self._read(number)
        return self._readable[number]

    def _read(self, number: int) -> str:
        if self.kind.heads is not None or self.is_marked:
            number %= len(self)
        piece = self._piece(number)
        if number < len(SPECIALS):
            return piece
        text = self.kind.read(piece)
        return "".join(f"<0x{BYTES[c]:02X}>" for c in piece) if text is None else text

    def goes_on(self, number: int, *, is_first: bool = False) -> bool:
        """Whether a piece continues the word before it: ##d, or d without a space.

        The first piece of a text has no space before it where pieces are of bytes.
        """
        if self.kind.goes_on is None or (is_first and self.kind.needs):
            return False
        if self.is_marked:
            number %= len(self)
        return self.kind.goes_on(self._piece(number))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The range of characters that each piece covers, end exclusive."""
        return self._encoding(text).offsets

    def covered(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Each piece of a text, without any mark, and the range of characters that it covers."""
        encoding = self._encoding(text)
        return list(zip(self._ids(encoding), encoding.offsets, strict=True))

    @cached_property
    def _longest_piece(self) -> int:
        return max(map(len, self._pieces[len(SPECIALS) :]), default=1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self._pieces)}

    @cached_property
    def _merging(self) -> Merging:
        merges = json.loads(self._tokenizer.to_str())["model"]["merges"]
        return Merging([(left, right) for left, right in merges], self._numbers)

    def _dropped(self, text: str, how: Dropping) -> list[int]:
        # bytes, since a lone surrogate is refused later and not here
        seed = f"{how.seed}/{text}".encode(errors="surrogatepass")
        ids = self.encode(text, dropout=how.dropout, random=random_numbers.Random(seed))
        return self.encode(text) if len(ids) > how.max_pieces else ids

    def _cut(self, text: str, dropout: float, random: random_numbers.Random) -> list[int]:
        try:
            words = self._tokenizer.pre_tokenizer.pre_tokenize_str(text)
        except UnicodeEncodeError as error:
            raise DataError(_no_text(text)) from error
        merged = self._merging.merged
        return self._marked(
            [number for word, _ in words for number in merged(word, dropout, random)]
        )

    def _piece(self, number: int) -> str:
        if not 0 <= number < len(self._pieces):
            raise DataError(
                f"subwords: there is no piece {number}; the vocabulary has {len(self)} (0 to "
                f"{len(self) - 1}). Was the text encoded with another one?"
            )
        return self._pieces[number]

    def _ids(self, encoding: Encoding) -> list[int]:
        # a word spelt like a special piece is an unknown word
        ids: list[int] = encoding.ids
        return ids if min(ids, default=UNK) >= UNK else [max(number, UNK) for number in ids]

    def _carried(self, text: str, ids: list[int]) -> list[int]:
        """The ids, each combined with its word's head if texts come with their trees."""
        if self.kind.heads is None:
            return self._marked(ids)
        heads = self.kind.heads(text)
        if len(heads) != len(ids):
            raise DataError(
                f"subwords: '{text[:40]}' has {len(heads)} words but {len(ids)} pieces; an arrow "
                "stands behind a word."
            )
        return [number + len(self) * head for number, head in zip(ids, heads, strict=True)]

    def _marked(self, ids: list[int]) -> list[int]:
        """The ids; if that is wanted, all are marked but the first with letters of each word."""
        if not self.is_marked:
            return ids
        marked, is_after_space = [], True
        for number in ids:
            text = self._texts[number]
            is_first = not text.isspace() and (is_after_space or text.startswith(" "))
            marked.append(number if is_first else number + len(self))
            is_after_space = text.endswith(" ")
        return marked

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The text of each piece; of a part of a character its unreadable piece."""
        return tuple(self.kind.read(piece) or piece for piece in self._pieces)

    def _encoding(self, text: str) -> Encoding:
        try:
            return self._tokenizer.encode(text)
        except TypeError as error:
            raise DataError(_no_text(text)) from error


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts, checked: each must be a text, and there must be at least one."""
    characters = 0
    for text in texts:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(_no_text(text))
        characters += len(text)
        yield text
    if not characters:
        raise DataError("subwords: there is no text to learn from.")


def _no_text(text: str) -> str:
    return f"subwords: {text[:40]!r} holds half a character (a lone surrogate); it is no text."
