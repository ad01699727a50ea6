"""Kinds of sub-words that come with published models; they are read, not learned here.

    wordpiece       words, and ##parts of words after the first (BERT)
    sentencepiece   pieces with their spaces written as ▁; the likeliest row (Marian, BigBird)
    spaced_bpe      pieces with their spaces written as ▁; the most frequent pairs (Llama 2, NLLB)
    split_bpe       pairs of bytes inside words that a pattern finds (Llama 3, Qwen)

They change a text before they cut it, each in its own way: wordpiece may make it lower case and
take accents away, sentencepiece maps characters by a table that came with the model. So a text is
decoded to its changed form, not always to the same letters.

Paper: Wu et al. 2016 (wordpiece); Kudo & Richardson 2018 (sentencepiece).
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from regard.data.subword_kinds import BPE, SPECIALS, UNK, Kind, continues, with_specials
from regard.errors import DataError, SettingError

PART = "##"
"""The prefix of a word's later parts in wordpiece."""
SPACE = "▁"
"""The character that sentencepiece writes for a space."""
MAX_CHARACTERS = 100
"""The most characters of a word in wordpiece; a longer word is unknown."""
PLAIN = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
"""The switches of wordpiece's changes."""
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""How a piece that is one byte is written where pieces are not of bytes."""
_NUMBERS_OF_ONE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = (_NUMBERS_OF_ONE, _NUMBERS_OF_ONE.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?"))
"""The patterns that find words: Qwen's, and Llama 3's, which takes three digits at a time."""
CLOSING = re.compile(r" ([.,!?;:%)\]}…])")
OPENING = re.compile(r"([(\[{]) ")


def _refuse_to_learn(texts: Iterator[str], size: int) -> Tokenizer:
    raise SettingError(
        "tokens.kind: this kind comes with published models and is not learned here. Take bpe or "
        "unigram, or training.start_from an imported run."
    )


def _rebuild_wordpiece(model: Mapping[str, Any]) -> Tokenizer:
    pieces = models.WordPiece(
        model["vocab"], unk_token=SPECIALS[UNK], max_input_chars_per_word=MAX_CHARACTERS
    )
    tokenizer = with_specials(pieces, pre_tokenizers.BertPreTokenizer(), None)
    clean, chinese, accents, lower = _switches(model.get("normalizer"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=bool(clean),
        handle_chinese_chars=bool(chinese),
        strip_accents=accents,
        lowercase=bool(lower),
    )
    return tokenizer


def _switches(said: Any) -> list[bool | None]:
    """Four switches of a file; without its own value, stripping accents follows lower case."""
    settings = said if isinstance(said, dict) else {}
    found = [settings.get(name) for name in PLAIN]
    if settings.get("type") != "BertNormalizer" or not all(
        isinstance(value, bool) or (value is None and name == "strip_accents")
        for name, value in zip(PLAIN, found, strict=True)
    ):
        raise DataError(f"its normalizer must be a BertNormalizer with {', '.join(PLAIN)}")
    return found


def _read_wordpiece(piece: str) -> str:
    return piece.removeprefix(PART)


def _is_part(piece: str) -> bool:
    return piece.startswith(PART)


def _join_wordpiece(pieces: Iterable[str]) -> str:
    text = " ".join(pieces).replace(f" {PART}", "")
    return OPENING.sub(r"\1", CLOSING.sub(r"\1", text)).replace(" ' ", "'")


def _rebuild_sentencepiece(model: Mapping[str, Any]) -> Tokenizer:
    pieces = [(piece, float(score)) for piece, score in model["vocab"]]
    cut = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer = with_specials(models.Unigram(pieces, UNK, byte_fallback=False), cut, None)
    table = character_table(model.get("normalizer"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *([normalizers.Precompiled(table)] if table else []),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    return tokenizer


def character_table(said: Any) -> bytes:
    """The table of characters in a tokenizer file's normaliser; empty if it has none."""
    parts = said.get("normalizers", [said]) if isinstance(said, dict) else []
    tables = [part for part in parts if isinstance(part, dict) and "precompiled_charsmap" in part]
    if not tables:
        return b""
    try:
        table = base64.b64decode(tables[0]["precompiled_charsmap"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise DataError("its table of characters is not base64") from error
    # the first four bytes say how long the index is, of units of four bytes
    length = int.from_bytes(table[:4], "little")
    if table and (length % 4 or not 0 < length <= len(table) - 4):
        raise DataError("its table of characters is damaged")
    return table


def _read_sentencepiece(piece: str) -> str:
    return piece.replace(SPACE, " ")


def _goes_on(piece: str) -> bool:
    return continues(_read_sentencepiece(piece))


def _join_sentencepiece(pieces: Iterable[str]) -> str:
    return "".join(pieces).replace(SPACE, " ").removeprefix(" ")


def _merged_pieces(model: Mapping[str, Any]) -> Any:
    return models.BPE(
        model["vocab"],
        [tuple(pair) for pair in model["merges"]],
        unk_token=SPECIALS[UNK],
        fuse_unk=bool(model.get("fuse_unk")),
        byte_fallback=bool(model.get("byte_fallback")),
        ignore_merges=bool(model.get("ignore_merges")),
    )


def _rebuild_spaced(model: Mapping[str, Any]) -> Tokenizer:
    cut = model.get("pre_tokenizer")
    is_split = isinstance(cut, dict) and cut.get("split") is True
    spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=is_split)
    tokenizer = with_specials(_merged_pieces(model), spaces, None)
    table = character_table(model.get("normalizer"))
    if table:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")]
        )
    return tokenizer


def _join_spaced(pieces: Iterable[str]) -> str:
    said = b"".join(
        bytes([int(found[1], 16)]) if (found := BYTE.fullmatch(piece)) else piece.encode()
        for piece in pieces
    )
    return _join_sentencepiece([said.decode("utf-8", errors="replace")])


def split_pattern(said: Any) -> str | None:
    """The pattern by which a tokenizer file splits texts, if it is one that is known."""
    match said:
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": str() as pattern}, "behavior": "Isolated"},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ],
        } if pattern in PATTERNS:
            return pattern
    return None


def _rebuild_split(model: Mapping[str, Any]) -> Tokenizer:
    pattern = split_pattern(model.get("pre_tokenizer"))
    if pattern is None:
        raise DataError("its pattern is unknown")
    cut = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = with_specials(_merged_pieces(model), cut, decoders.ByteLevel())
    if model.get("normalizer"):
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


WORDPIECE = Kind(
    "wordpiece", _refuse_to_learn, _rebuild_wordpiece, _read_wordpiece, _join_wordpiece,
    model="WordPiece", cut="BertPreTokenizer", goes_on=_is_part,
    special_names=("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
)  # fmt: skip
SENTENCEPIECE = Kind(
    "sentencepiece", _refuse_to_learn, _rebuild_sentencepiece, _read_sentencepiece,
    _join_sentencepiece, model="Unigram", cut="Metaspace", goes_on=_goes_on,
    holds_spaces=True,
)  # fmt: skip
SPACED_BPE = Kind(
    "spaced_bpe", _refuse_to_learn, _rebuild_spaced, _read_sentencepiece, _join_spaced,
    model="BPE", cut="Metaspace", goes_on=_goes_on,
)  # fmt: skip
SPLIT_BPE = replace(
    BPE, name="split_bpe", learn=_refuse_to_learn, rebuild=_rebuild_split, cut="Sequence"
)

PUBLISHED_KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (WORDPIECE, SENTENCEPIECE, SPACED_BPE, SPLIT_BPE)
}
