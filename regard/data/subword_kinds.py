"""Kinds of sub-words: learns BPE, unigram and word vocabularies, and turns pieces back into text.

    bpe          byte pairs, the most frequent merged first (Sennrich, Haddow & Birch 2016)
    unigram      the pieces that explain the text best (Kudo 2018)
    bytes        one piece a byte of UTF-8, nothing learned: 256 pieces for any text
    characters   one piece a character
    words        one piece a word between spaces

bpe, unigram and bytes work on UTF-8 bytes, so that no text is lost, nor a space of it; BPE-dropout
is in bpe_merges.py.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unicodedata import east_asian_width

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from regard.errors import SettingError

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
MASK_PIECE = "[MASK]"
"""The piece that stands for a hidden word, in vocabularies that have one."""
MASK_NUMBER = len(SPECIALS)
"""Its number: the first after the special pieces."""
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""The text of the unknown piece."""


@dataclass(frozen=True)
class Kind:
    """One way of cutting text into pieces."""

    name: str
    learn: Callable[[Iterator[str], int], Tokenizer] = field(compare=False)
    """Texts and the size of the vocabulary → a vocabulary."""
    rebuild: Callable[[Mapping[str, Any]], Tokenizer] = field(compare=False)
    """The model part of a tokenizer file, already checked → a vocabulary."""
    read: Callable[[str], str | None]
    """A piece as text; None where it is only some of the bytes of a character."""
    join: Callable[[Iterable[str]], str]
    """Pieces → text."""
    model: str
    """The name of this kind of model in the tokenizer file."""
    cut: str
    """The name of this kind's pre-tokenizer in the tokenizer file."""
    needs: frozenset[str] = frozenset()
    """Pieces that every vocabulary of this kind contains."""
    heads: Callable[[str], list[int]] | None = None
    """The head of each word of a text, where texts come with their trees (parsed_words.py)."""
    goes_on: Callable[[str], bool] | None = None
    """Whether a piece continues the word before it; None if pieces do not show that."""
    holds_spaces: bool = False
    """Whether the spaces of a text stand in its pieces."""
    words_are_pieces: bool = False
    """Whether each word between spaces is one piece."""
    special_names: Sequence[str] = SPECIALS
    """What padding, begin, end and unknown are called where pieces are shown."""
    covers_all: bool = False
    """Whether a text's pieces have as many characters as the text, spaces apart, or more. Where an
    unknown word is one piece, of whatever length, they may have fewer."""


def _alphabet() -> dict[int, str]:
    """The visible character that stands for each byte in byte-level pieces."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    stands = {byte: chr(byte) for byte in plain}
    return stands | {byte: chr(256 + i) for i, byte in enumerate(others)}


BYTES = {character: byte for byte, character in _alphabet().items()}


def _to_bytes(piece: str) -> bytes:
    # the unknown piece is no sequence of bytes; it reads as U+FFFD
    return UNKNOWN.encode() if piece == UNKNOWN else bytes(BYTES[c] for c in piece)


def _read_bytes(piece: str) -> str | None:
    try:
        return _to_bytes(piece).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _join_bytes(pieces: Iterable[str]) -> str:
    return b"".join(map(_to_bytes, pieces)).decode("utf-8", errors="replace")


def continues(text: str | None) -> bool:
    """Whether a piece continues a word: its text begins with a letter or digit, not a space.

    Characters of double width are written without spaces, and so never count.
    """
    first = (text or "")[:1]
    return first.isalnum() and east_asian_width(first) not in "WF"


def _goes_on(piece: str) -> bool:
    return continues(_read_bytes(piece))


def with_specials(
    model: Any, cut: pre_tokenizers.PreTokenizer, decoder: decoders.Decoder | None
) -> Tokenizer:
    """A vocabulary that reads special pieces in a text as plain letters, except the mask piece."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = cut
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(list(SPECIALS))
    # a text that holds the letters <pad> means those letters, not padding
    tokenizer.encode_special_tokens = True
    if tokenizer.token_to_id(MASK_PIECE) is not None:
        # the space before it belongs to the word that it stands for
        tokenizer.add_tokens([AddedToken(MASK_PIECE, lstrip=True, normalized=False)])
    return tokenizer


def framed(tokenizer: Tokenizer, before: Sequence[str], after: Sequence[str] = ()) -> Tokenizer:
    """The same vocabulary, with these pieces before and after every text."""
    if before or after:
        known = tokenizer.get_vocab()
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            special_tokens=[(piece, known[piece]) for piece in {*before, *after}],
        )
    return tokenizer


def _byte_level(model: Any) -> Tokenizer:
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return with_specials(model, cut, decoders.ByteLevel())


def _learn_bpe(texts: Iterator[str], size: int) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=_enough("bpe", size),
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(BYTES),
        show_progress=False,
    )
    return _byte_level(_trained(models.BPE(), trainer, texts).model)


def _learn_unigram(texts: Iterator[str], size: int) -> Tokenizer:
    trainer = trainers.UnigramTrainer(
        vocab_size=_enough("unigram", size),
        special_tokens=list(SPECIALS),
        unk_token=SPECIALS[UNK],
        initial_alphabet=sorted(BYTES),
        show_progress=False,
    )
    learnt = _trained(models.Unigram(), trainer, texts)
    pieces = json.loads(learnt.to_str())["model"]["vocab"][len(SPECIALS) :]
    scores = _settled(dict(pieces))
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return _rebuild_unigram({"vocab": [*((special, 0.0) for special in SPECIALS), *ordered]})


def _trained(model: Any, trainer: Any, texts: Iterator[str]) -> Tokenizer:
    learnt = Tokenizer(model)
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt.train_from_iterator(texts, trainer)
    return learnt


def _settled(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores, made deterministic where the trainer is not.

    The trainer gives unused bytes the lowest score plus a multiple of 0.0001, in the order of a
    hash table that differs from run to run. Here they all get the lowest score.
    """
    lowest = min(scores.values())

    def steps(score: float) -> float:
        return (score - lowest) / 1e-4

    chance = {
        piece
        for piece, score in scores.items()
        if piece in BYTES and abs(steps(score) - round(steps(score))) < 1e-6 and steps(score) < 256
    }
    return {p: round(lowest if p in chance else score, 9) for p, score in scores.items()}


def _enough(name: str, size: int) -> int:
    least = len(SPECIALS) + len(BYTES)
    if size < least:
        raise SettingError(
            f"{name}: size must be at least {least} (256 bytes and {len(SPECIALS)} special "
            f"pieces), got {size}."
        )
    return size


@dataclass(frozen=True)
class WordLevel:
    """Learns and rebuilds vocabularies of whole words or characters, without merges."""

    name: str
    pieces: Callable[[str], Iterable[str]]
    """Splits a text into the pieces that are counted."""
    built: Callable[[Any], Tokenizer]

    def learn(self, texts: Iterator[str], size: int) -> Tokenizer:
        """Learn the vocabulary: the special pieces, and then the most frequent others."""
        if size <= len(SPECIALS):
            raise SettingError(
                f"{self.name}: size must be more than the {len(SPECIALS)} special pieces, got "
                f"{size}."
            )
        counts = Counter(piece for text in texts for piece in self.pieces(text))
        known = sorted(counts.keys() - set(SPECIALS), key=lambda piece: (-counts[piece], piece))
        pieces = [*SPECIALS, *known[: size - len(SPECIALS)]]
        return self.rebuild({"vocab": {piece: i for i, piece in enumerate(pieces)}})

    def rebuild(self, model: Mapping[str, Any]) -> Tokenizer:
        """The vocabulary of a file."""
        return self.built(models.WordLevel(model["vocab"], SPECIALS[UNK]))


def _one_a_character(model: Any) -> Tokenizer:
    return with_specials(model, pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse())


def _one_a_word(model: Any) -> Tokenizer:
    return with_specials(model, pre_tokenizers.WhitespaceSplit(), None)


def _learn_bytes(texts: Iterator[str], size: int) -> Tokenizer:
    _enough("bytes", size)
    # every byte is there, whatever the texts, which are read once as those of other kinds
    for _ in texts:
        pass
    pieces = [*SPECIALS, *sorted(BYTES, key=BYTES.__getitem__)]
    return _rebuild_bytes({"vocab": {piece: number for number, piece in enumerate(pieces)}})


def _rebuild_bytes(model: Mapping[str, Any]) -> Tokenizer:
    pieces = models.WordLevel(model["vocab"], SPECIALS[UNK])
    tokenizer = with_specials(pieces, pre_tokenizers.FixedLength(1), decoders.ByteLevel())
    tokenizer.normalizer = normalizers.ByteLevel()
    return tokenizer


def _rebuild_bpe(model: Mapping[str, Any]) -> Tokenizer:
    return _byte_level(models.BPE(model["vocab"], [tuple(pair) for pair in model["merges"]]))


def _rebuild_unigram(model: Mapping[str, Any]) -> Tokenizer:
    vocabulary = [(piece, float(score)) for piece, score in model["vocab"]]
    return _byte_level(models.Unigram(vocabulary, UNK, byte_fallback=False))


_CHARACTERS = WordLevel("characters", list, _one_a_character)
_WORDS = WordLevel("words", str.split, _one_a_word)

BPE = Kind(
    "bpe", _learn_bpe, _rebuild_bpe, _read_bytes, _join_bytes,
    model="BPE", cut="ByteLevel", needs=frozenset(BYTES), goes_on=_goes_on,
    holds_spaces=True, covers_all=True,
)  # fmt: skip
UNIGRAM = replace(
    BPE, name="unigram", learn=_learn_unigram, rebuild=_rebuild_unigram, model="Unigram"
)
BYTE_PIECES = replace(
    BPE, name="bytes", learn=_learn_bytes, rebuild=_rebuild_bytes, model="WordLevel",
    cut="FixedLength",
)  # fmt: skip
CHARACTERS = Kind(
    "characters", _CHARACTERS.learn, _CHARACTERS.rebuild, str, "".join,
    model="WordLevel", cut="Split", holds_spaces=True, covers_all=True,
)  # fmt: skip
WORDS = Kind(
    "words", _WORDS.learn, _WORDS.rebuild, str, " ".join,
    model="WordLevel", cut="WhitespaceSplit", words_are_pieces=True,
)  # fmt: skip

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (BPE, UNIGRAM, BYTE_PIECES, CHARACTERS, WORDS)
}
