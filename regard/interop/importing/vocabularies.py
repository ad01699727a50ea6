"""Vocabularies: published pieces in our order, and the row that each has in a published table.

    theirs   [PAD] [unused0] … [UNK] [CLS] [SEP] [MASK] … the …
    ours     <pad> <bos> <eos> <unk> [MASK] [unused0] … the …

The four special pieces come first here, and every file of ours says so. A published piece that does
what one of them does takes its place; all others follow in the order that they had.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from regard.choices import find
from regard.data.published_subwords import MAX_CHARACTERS, PART, SENTENCEPIECE, SPACE, WORDPIECE
from regard.data.subword_kinds import BPE, MASK_PIECE, SPECIALS, Kind
from regard.data.subwords import Subwords
from regard.errors import RegardError
from regard.interop.importing.family import PieceRow, Roles
from regard.interop.importing.folder import Folder
from regard.interop.importing.sentencepieces import read_pieces

TOKENIZER, WORDS, MERGES, LIST = "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"
SOURCE, TARGET, TARGET_WORDS = "source.spm", "target.spm", "target_vocab.json"
MIN_SCORE = -1e4
"""The score of a piece of the other language only, so low that it is the last choice."""
CHANGES = ("Sequence", "Precompiled", "Replace", "Strip")
"""Changes of a text that sentencepiece makes, as a tokenizer file names them."""
SEVERAL_SPACES = {"Regex": " {2,}"}
"""The one thing that sentencepiece replaces."""
DAMAGE_ERRORS = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""The exceptions of reading a damaged file."""

Held = Mapping[str, Any]
Checks = Iterator[tuple[str, Any, Sequence[Any]]]
"""A setting of a tokenizer file, its value, and the values that are read here."""


@final
@dataclass(frozen=True)
class Vocabulary:
    """Sub-words, and where each of them stands in a published table."""

    subwords: Subwords
    rows: tuple[PieceRow, ...]


def vocabularies(folder: Folder, roles: Roles) -> tuple[Vocabulary, ...]:
    """One vocabulary for both sides, or the source's and the target's."""
    if folder.has(TOKENIZER):
        try:
            return (_of_tokenizer(folder, roles, folder.json(TOKENIZER)),)
        except RegardError:
            raise
        except DAMAGE_ERRORS as error:
            raise folder.refusal(
                f" is damaged: {type(error).__name__}: {error}.", TOKENIZER
            ) from error
    if all(folder.has(name) for name in (SOURCE, TARGET, WORDS)):
        target = TARGET_WORDS if folder.has(TARGET_WORDS) else WORDS
        return (
            _of_sentencepieces(folder, roles, SOURCE, WORDS),
            _of_sentencepieces(folder, roles, TARGET, target),
        )
    if folder.has(WORDS) and folder.has(MERGES):
        return (_of_merges(folder, roles),)
    if folder.has(LIST):
        return (_of_list(folder, roles),)
    raise folder.refusal(
        f" has no vocabulary. Expected {TOKENIZER}, {WORDS} with {MERGES}, {LIST}, or {SOURCE}, "
        f"{TARGET} and {WORDS}."
    )


def _of_tokenizer(folder: Folder, roles: Roles, content: Held) -> Vocabulary:
    """From a file of the tokenizers library, if its kind is supported."""
    model, cut = (
        found if isinstance(found := content.get(name), dict) else {}
        for name in ("model", "pre_tokenizer")
    )
    kind, checks = find(_type(model), ADOPTED, key=f"import: '{folder.path / TOKENIZER}'")
    changes = content.get("normalizer")
    for name, value, able in checks(model, cut, changes):
        if value not in able:
            said = " or ".join(repr(one) for one in able)
            raise folder.refusal(
                f": '{name}' must be {said}, got {value!r}: such vocabularies are not read.",
                TOKENIZER,
            )
    merges = [m.split(" ") if isinstance(m, str) else m for m in model.get("merges", [])]
    settings = {"merges": merges} if kind == BPE else {"normalizer": changes}
    vocabulary, scores = model.get("vocab"), dict[str, float]()
    if isinstance(vocabulary, list):
        for piece, score in vocabulary:
            if piece in scores or not math.isfinite(score):
                raise folder.refusal(
                    ": each piece must stand there once, with a finite score; got "
                    f"{piece!r} twice, or with {score!r}.",
                    TOKENIZER,
                )
            scores[piece] = float(score)
        vocabulary = {piece: number for number, piece in enumerate(scores)}
    added = content.get("added_tokens") or []
    numbers = {**_numbers(folder, vocabulary), **{one["content"]: one["id"] for one in added}}
    return _adopted(folder, kind, _numbers(folder, numbers), roles, settings, scores)


def _of_merges(folder: Folder, roles: Roles) -> Vocabulary:
    """From GPT-2's two files."""
    lines = folder.text(MERGES).splitlines()
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    numbers = _numbers(folder, folder.json(WORDS))
    return _adopted(folder, BPE, numbers, roles, {"merges": merges}, {})


def _of_list(folder: Folder, roles: Roles) -> Vocabulary:
    """From BERT's list, one piece a line."""
    pieces = folder.text(LIST).split("\n")
    numbers = {piece.rstrip("\r"): number for number, piece in enumerate(pieces) if piece}
    said = folder.json("tokenizer_config.json") if folder.has("tokenizer_config.json") else {}
    changes = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": said.get("tokenize_chinese_chars", True),
        "strip_accents": said.get("strip_accents"),
        "lowercase": said.get("do_lower_case", True),
    }
    return _adopted(folder, WORDPIECE, numbers, roles, {"normalizer": changes}, {})


def _of_sentencepieces(folder: Folder, roles: Roles, pieces: str, words: str) -> Vocabulary:
    """From Marian's files: one side's pieces with their scores, and the numbers of all pieces."""
    known, changes = read_pieces(folder.path / pieces)
    numbers = _numbers(folder, folder.json(words))
    scores = {piece: known.get(piece, MIN_SCORE) for piece in numbers}
    return _adopted(folder, SENTENCEPIECE, numbers, roles, {"normalizer": changes}, scores)


def _adopted(
    folder: Folder,
    kind: Kind,
    numbers: Mapping[str, int],
    roles: Roles,
    settings: Held,
    scores: Mapping[str, float],
) -> Vocabulary:
    """Pieces in our order, as sub-words, and the row of each; only some kinds have scores."""
    taken = {piece for piece in roles if piece is not None and piece in numbers}
    clash = sorted((set(SPECIALS) | {MASK_PIECE}) & set(numbers) - taken)
    if clash:
        raise folder.refusal(
            f": the vocabulary has {clash} beside {sorted(taken)}; these names are taken here."
        )
    if roles.end not in numbers:
        raise folder.refusal(
            f": the vocabulary has no '{roles.end}', which ends a text in models of this family."
        )
    rows = {
        name: PieceRow(None if piece is None else numbers.get(piece))
        for name, piece in zip(SPECIALS, roles, strict=False)
    }
    if roles.begin in (roles.padding, roles.end):
        # a begin piece that doubles as another is only read; the other one may be written
        rows[SPECIALS[1]] = rows[SPECIALS[1]]._replace(is_writable=False)
    if roles.mask is not None and roles.mask in numbers:
        rows[MASK_PIECE] = PieceRow(numbers[roles.mask])
    rest = sorted(numbers.keys() - taken, key=lambda piece: numbers[piece])
    if len({numbers[piece] for piece in rest}) != len(rest):
        raise folder.refusal(": two pieces have one number.")
    rows |= {piece: PieceRow(numbers[piece]) for piece in rest}
    known: Any = {piece: number for number, piece in enumerate(rows)}
    if scores:
        known = [
            [piece, scores.get(piece, 0.0 if piece in SPECIALS else MIN_SCORE)] for piece in rows
        ]
    try:
        tokenizer = kind.rebuild({**settings, "vocab": known})
    except Exception as error:
        raise folder.refusal(f": its vocabulary: {error}.") from error
    return Vocabulary(Subwords(kind, tokenizer), tuple(rows.values()))


def _numbers(folder: Folder, vocabulary: Any) -> dict[str, int]:
    if not isinstance(vocabulary, dict) or not all(
        isinstance(piece, str) and type(number) is int and number >= 0
        for piece, number in vocabulary.items()
    ):
        raise folder.refusal(": its vocabulary must give each piece a number.")
    return dict(vocabulary)


def _type(model: Held) -> str:
    """The kind of model in a file; in older files it is inferred from the fields."""
    if "type" in model:
        return str(model["type"])
    if "merges" in model:
        return "BPE"
    return "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"


def _wordpiece(model: Held, cut: Held, changes: Any) -> Checks:
    yield "continuing_subword_prefix", model.get("continuing_subword_prefix"), (PART,)
    yield "pre_tokenizer", cut.get("type"), ("BertPreTokenizer",)
    longest = model.get("max_input_chars_per_word", MAX_CHARACTERS)
    yield "max_input_chars_per_word", longest, (MAX_CHARACTERS,)


def _bpe(model: Held, cut: Held, changes: Any) -> Checks:
    yield "pre_tokenizer", cut.get("type"), ("ByteLevel",)
    yield "add_prefix_space", cut.get("add_prefix_space"), (False,)
    yield "normalizer", changes, (None,)
    yield "use_regex", cut.get("use_regex", True), (True,)
    for name in ("ignore_merges", "byte_fallback", "dropout"):
        yield name, model.get(name), (None, False)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        yield name, model.get(name), (None, "")


def _unigram(model: Held, cut: Held, changes: Any) -> Checks:
    *before, last = cut.get("pretokenizers") or [cut]
    yield "pre_tokenizer", last.get("type"), ("Metaspace",)
    for one in before:
        yield "pre_tokenizer", one.get("type"), ("WhitespaceSplit",)
    # older files use the key add_prefix_space
    yield "add_prefix_space", last.get("add_prefix_space", True), (True,)
    yield "prepend_scheme", last.get("prepend_scheme", "always"), ("always",)
    yield "replacement", last.get("replacement", SPACE), (SPACE,)
    yield "split", last.get("split", True), (True,)
    yield "byte_fallback", model.get("byte_fallback", False), (False,)
    for part in changes.get("normalizers", [changes]) if isinstance(changes, dict) else []:
        yield "normalizer", part.get("type"), CHANGES
        if part.get("type") == "Replace":
            yield "pattern", part.get("pattern"), (SEVERAL_SPACES,)
            yield "content", part.get("content"), (" ", SPACE)


ADOPTED = {
    "WordPiece": (WORDPIECE, _wordpiece),
    "BPE": (BPE, _bpe),
    "Unigram": (SENTENCEPIECE, _unigram),
}
"""How text is cut, and what has to be so in a tokenizer file, by the kind of its model."""
