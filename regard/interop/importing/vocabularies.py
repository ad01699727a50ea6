"""Vocabularies: published pieces in our order, and the row that each has in a published table.

    theirs   [PAD] [unused0] … [UNK] [CLS] [SEP] [MASK] … the …
    ours     <pad> <bos> <eos> <unk> [MASK] [unused0] … the …

The four special pieces come first here, and every file of ours says so. A published piece that does
what one of them does takes its place; all others follow in the order that they had.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from regard.choices import find
from regard.data.published_subwords import (
    MAX_CHARACTERS,
    PART,
    SENTENCEPIECE,
    SPACE,
    SPACED_BPE,
    SPLIT_BPE,
    WORDPIECE,
    split_pattern,
)
from regard.data.subword_kinds import BPE, MASK_PIECE, SPECIALS, Kind, framed
from regard.data.subwords import Subwords
from regard.errors import RegardError
from regard.interop.importing.family import Languages, PieceRow, Side, TwoSides
from regard.interop.importing.folder import Folder
from regard.interop.importing.sentencepieces import read_pieces

TOKENIZER, WORDS, MERGES, LIST = "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"
SOURCE, TARGET, TARGET_WORDS = "source.spm", "target.spm", "target_vocab.json"
SHARED, SPECIAL_PIECES = "sentencepiece.bpe.model", "special_tokens_map.json"
HABITS = ("fuse_unk", "byte_fallback", "ignore_merges")
"""The switches of pairs that are merged."""
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


@final
@dataclass(frozen=True)
class Pieces:
    """A published vocabulary: how text is cut, and the number of each piece there."""

    kind: Kind
    numbers: Mapping[str, int]
    settings: Held
    """What the kind needs to be rebuilt, besides its pieces."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Of pieces, where the kind has them."""


def vocabularies(
    folder: Folder,
    sides: Callable[[Folder, Mapping[str, int], Languages], TwoSides],
    languages: Languages,
) -> tuple[Vocabulary, ...]:
    """One vocabulary for both sides, or the source's and the target's."""
    found = _published(folder)
    source, target = found[0], found[-1]
    own = sides(folder, source.numbers, languages)
    if source is target and own.source == own.target:
        return (_adopted(folder, source, own.source),)
    return _adopted(folder, source, own.source), _adopted(folder, target, own.target)


def _published(folder: Folder) -> tuple[Pieces, ...]:
    """What a folder says of its vocabulary, or of those of its two sides."""
    if folder.has(TOKENIZER):
        try:
            return (_of_tokenizer(folder, folder.json(TOKENIZER)),)
        except RegardError:
            raise
        except DAMAGE_ERRORS as error:
            raise folder.refusal(
                f" is damaged: {type(error).__name__}: {error}.", TOKENIZER
            ) from error
    if all(folder.has(name) for name in (SOURCE, TARGET, WORDS)):
        target = TARGET_WORDS if folder.has(TARGET_WORDS) else WORDS
        return (
            _of_sentencepieces(folder, SOURCE, WORDS),
            _of_sentencepieces(folder, TARGET, target),
        )
    if folder.has(SHARED) and folder.has(WORDS):
        return (_of_sentencepieces(folder, SHARED, WORDS),)
    if folder.has(WORDS) and folder.has(MERGES):
        return (_of_merges(folder),)
    if folder.has(LIST):
        return (_of_list(folder),)
    raise folder.refusal(
        f" has no vocabulary. Expected {TOKENIZER}, {WORDS} with {MERGES} or {SHARED}, {LIST}, or "
        f"{SOURCE}, {TARGET} and {WORDS}."
    )


def _of_tokenizer(folder: Folder, content: Held) -> Pieces:
    """From a file of the tokenizers library, if its kind is supported."""
    model = found if isinstance(found := content.get("model"), dict) else {}
    cut = found if isinstance(found := content.get("pre_tokenizer"), dict) else {}
    where = f"import: '{folder.path / TOKENIZER}'"
    kind, checks = find(_type(model, cut), ADOPTED, key=where)
    changes = content.get("normalizer")
    for name, value, able in checks(model, cut, changes):
        if value not in able:
            said = " or ".join(repr(one) for one in able)
            raise folder.refusal(
                f": '{name}' must be {said}, got {value!r}: such vocabularies are not read.",
                TOKENIZER,
            )
    settings = {"normalizer": changes, "pre_tokenizer": cut}
    if kind.model == "BPE":
        merges = [m.split(" ") if isinstance(m, str) else m for m in model.get("merges", [])]
        settings |= {"merges": merges, **{name: model.get(name) for name in HABITS}}
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
    return Pieces(kind, _numbers(folder, numbers), settings, scores)


def _of_merges(folder: Folder) -> Pieces:
    """From GPT-2's two files."""
    lines = folder.text(MERGES).splitlines()
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    return Pieces(BPE, _numbers(folder, folder.json(WORDS)), {"merges": merges})


def _of_list(folder: Folder) -> Pieces:
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
    return Pieces(WORDPIECE, numbers, {"normalizer": changes})


def _of_sentencepieces(folder: Folder, pieces: str, words: str) -> Pieces:
    """From sentencepiece's file, with the scores, and one with the numbers of all pieces."""
    known, merges, changes = read_pieces(folder.file(pieces))
    numbers = _numbers(folder, folder.json(words))
    numbers |= _added(folder, len(numbers))
    if merges is not None:
        return Pieces(
            SPACED_BPE,
            numbers,
            {
                "normalizer": changes,
                "merges": [pair for pair in merges if {*pair, "".join(pair)} <= numbers.keys()],
                "fuse_unk": True,
                "pre_tokenizer": {"split": True},
            },
        )
    scores = {piece: known.get(piece, MIN_SCORE) for piece in numbers}
    return Pieces(SENTENCEPIECE, numbers, {"normalizer": changes}, scores)


def _added(folder: Folder, first: int) -> dict[str, int]:
    """The pieces of languages that follow those of a file, in their order."""
    if not folder.has(SPECIAL_PIECES):
        return {}
    said = folder.json(SPECIAL_PIECES).get("additional_special_tokens") or []
    added = [one.get("content") if isinstance(one, dict) else one for one in said]
    return _numbers(folder, {piece: first + i for i, piece in enumerate(added)})


def _adopted(folder: Folder, published: Pieces, side: Side) -> Vocabulary:
    """Pieces in our order, as sub-words, and the row of each; only some kinds have scores."""
    kind, numbers, roles, scores = published.kind, published.numbers, side.roles, published.scores
    taken = {piece for piece in roles if piece is not None and piece in numbers}
    clash = sorted((set(SPECIALS) | {MASK_PIECE}) & set(numbers) - taken)
    if clash:
        raise folder.refusal(
            f": the vocabulary has {clash} beside {sorted(taken)}; these names are taken here."
        )
    needed = (roles.end, *side.before, *side.after)
    if lacking := [piece for piece in needed if piece not in numbers]:
        raise folder.refusal(
            f": the vocabulary has no '{lacking[0]}', which stands around a text in models of this "
            "family."
        )
    rows = {
        name: PieceRow(None if piece is None else numbers.get(piece))
        for name, piece in zip(SPECIALS, roles, strict=False)
    }
    if roles.begin in (roles.padding, roles.end, *side.before, *side.after):
        # a begin piece that doubles as another is only read; the other one may be written
        rows[SPECIALS[1]] = rows[SPECIALS[1]]._replace(is_writable=False)
    if roles.mask is not None and roles.mask in numbers:
        rows[MASK_PIECE] = PieceRow(numbers[roles.mask])
    rest = sorted(numbers.keys() - (taken - set(needed[1:])), key=lambda piece: numbers[piece])
    if len({numbers[piece] for piece in rest}) != len(rest):
        raise folder.refusal(": two pieces have one number.")
    rows |= {piece: PieceRow(numbers[piece]) for piece in rest}
    known: Any = {piece: number for number, piece in enumerate(rows)}
    if scores:
        known = [
            [piece, scores.get(piece, 0.0 if piece in SPECIALS else MIN_SCORE)] for piece in rows
        ]
    try:
        tokenizer = framed(
            kind.rebuild({**published.settings, "vocab": known}), side.before, side.after
        )
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


def _type(model: Held, cut: Held) -> str:
    """The kind of a file's model, and what cuts texts for it if there are several such.

    In older files the kind is inferred from the fields.
    """
    kind = model.get("type")
    if kind is None:
        is_scored = isinstance(model.get("vocab"), list)
        kind = "BPE" if "merges" in model else "Unigram" if is_scored else "WordPiece"
    if kind != "BPE":
        return str(kind)
    if cut.get("type") == "Sequence":
        return "BPE of split words"
    return "BPE" if cut.get("type") == "ByteLevel" else "BPE with spaces"


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
    yield from _merging(model, ("ignore_merges", "byte_fallback", "dropout"))


def _split_bpe(model: Held, cut: Held, changes: Any) -> Checks:
    is_known = split_pattern(cut) is not None
    yield "pre_tokenizer", is_known or cut, (True,)
    kind = changes.get("type") if isinstance(changes, dict) else changes
    yield "normalizer", kind, (None, "NFC")
    yield from _merging(model, ("byte_fallback", "dropout"))


def _spaced_bpe(model: Held, cut: Held, changes: Any) -> Checks:
    yield "pre_tokenizer", cut.get("type"), (None, "Metaspace")
    yield from _spaces(cut, schemes=("always", "first"))
    parts = _parts(changes)
    for part in parts:
        yield "normalizer", part.get("type"), ("Prepend", "Replace", "Precompiled")
        yield "prepend", part.get("prepend", SPACE), (SPACE,)
        if part.get("type") == "Replace":
            yield "pattern", part.get("pattern"), (SEVERAL_SPACES, {"String": " "})
            yield "content", part.get("content"), (" ", SPACE)
    # without a cut, spaces must be changed before
    are_changed = bool(cut) or any(part.get("type") == "Prepend" for part in parts)
    yield "pre_tokenizer", are_changed or None, (True,)
    yield from _merging(model, ("dropout", "ignore_merges"))


def _merging(model: Held, switches: Sequence[str]) -> Checks:
    for name in switches:
        yield name, model.get(name), (None, False)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        yield name, model.get(name), (None, "")


def _spaces(cut: Held, schemes: Sequence[str]) -> Checks:
    # older files use the key add_prefix_space
    yield "add_prefix_space", cut.get("add_prefix_space", True), (True,)
    yield "prepend_scheme", cut.get("prepend_scheme", "always"), schemes
    yield "replacement", cut.get("replacement", SPACE), (SPACE,)


def _parts(changes: Any) -> Sequence[Held]:
    """The changes of a text, one by one."""
    return changes.get("normalizers", [changes]) if isinstance(changes, dict) else []


def _unigram(model: Held, cut: Held, changes: Any) -> Checks:
    *before, last = cut.get("pretokenizers") or [cut]
    yield "pre_tokenizer", last.get("type"), ("Metaspace",)
    for one in before:
        yield "pre_tokenizer", one.get("type"), ("WhitespaceSplit",)
    yield from _spaces(last, schemes=("always",))
    yield "split", last.get("split", True), (True,)
    yield "byte_fallback", model.get("byte_fallback", False), (False,)
    for part in _parts(changes):
        yield "normalizer", part.get("type"), CHANGES
        if part.get("type") == "Replace":
            yield "pattern", part.get("pattern"), (SEVERAL_SPACES,)
            yield "content", part.get("content"), (" ", SPACE)


ADOPTED = {
    "WordPiece": (WORDPIECE, _wordpiece),
    "BPE": (BPE, _bpe),
    "BPE of split words": (SPLIT_BPE, _split_bpe),
    "BPE with spaces": (SPACED_BPE, _spaced_bpe),
    "Unigram": (SENTENCEPIECE, _unigram),
}
"""How text is cut, and what has to be so in a tokenizer file, by the kind of its model."""
