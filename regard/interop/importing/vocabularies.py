"""Vocabularies: published pieces in our order, and the row that each has in a published table.

    theirs   [PAD] [unused0] … [UNK] [CLS] [SEP] [MASK] … the …
    ours     <pad> <bos> <eos> <unk> [MASK] [unused0] … the …

The four special pieces come first here, and every file of ours says so. A published piece that does
what one of them does takes its place; all others follow in the order that they had.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from regard.choices import find
from regard.data.kinds import BPE, MASK_PIECE, SPECIALS, Kind
from regard.data.published_kinds import MAX_CHARACTERS, PART, SENTENCEPIECE, SPACE, WORDPIECE
from regard.data.subwords import Subwords
from regard.errors import CheckpointError, RegardError
from regard.interop.importing.folder import Folder
from regard.interop.importing.layouts import Row
from regard.interop.importing.roles import Roles
from regard.interop.importing.sentencepieces import read_pieces

TOKENIZER, WORDS, MERGES, LIST = "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"
SOURCE, TARGET, TARGET_WORDS = "source.spm", "target.spm", "target_vocab.json"
FLOOR = -1e4
"""The score of a piece that only the other language's cutting knows: taken when nothing else is."""
CHANGES = ("Sequence", "Precompiled", "Replace", "Strip")
"""Changes of a text that sentencepiece makes, as a tokenizer file names them."""
SEVERAL_SPACES = {"Regex": " {2,}"}
"""The one thing that sentencepiece replaces."""
DAMAGED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""What reading a file meets where something stands in it that has no place there."""


@final
@dataclass(frozen=True)
class Vocabulary:
    """Sub-words, and where each of them stands in a published table."""

    subwords: Subwords
    rows: tuple[Row, ...]


def vocabularies(folder: Folder, roles: Roles) -> tuple[Vocabulary, ...]:
    """One vocabulary for both sides, or the source's and the target's."""
    if folder.has(TOKENIZER):
        return (_of_tokenizer(folder, roles),)
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
    raise CheckpointError(
        f"import: '{folder.path}' has no vocabulary. Expected {TOKENIZER}, {WORDS} with {MERGES}, "
        f"{LIST}, or {SOURCE}, {TARGET} and {WORDS}."
    )


def _of_tokenizer(folder: Folder, roles: Roles) -> Vocabulary:
    """From a file of the tokenizers library, if it is of a kind that is known here."""
    try:
        return _of_content(folder, roles, folder.json(TOKENIZER))
    except RegardError:
        raise
    except DAMAGED as error:
        raise CheckpointError(
            f"import: '{folder.path / TOKENIZER}' is damaged: {type(error).__name__}: {error}."
        ) from error


def _of_content(folder: Folder, roles: Roles, content: Mapping[str, Any]) -> Vocabulary:
    model, cut = _part(content, "model"), _part(content, "pre_tokenizer")
    adopt = find(_type(model), ADOPTING, key=f"import: '{folder.path / TOKENIZER}'")
    kind, settings = adopt(folder, model, cut, content.get("normalizer"))
    vocabulary = model.get("vocab")
    scores: Mapping[str, float] = {}
    if isinstance(vocabulary, list):
        scores = _scores(folder, vocabulary)
        vocabulary = {piece: number for number, piece in enumerate(scores)}
    added = content.get("added_tokens") or []
    numbers = {**_numbers(folder, vocabulary), **{one["content"]: one["id"] for one in added}}
    return _adopted(folder, kind, _numbers(folder, numbers), roles, settings, scores)


def _scores(folder: Folder, vocabulary: Sequence[Any]) -> dict[str, float]:
    """Pieces in their order, each once: a row of weights belongs to each."""
    scores: dict[str, float] = {}
    for piece, score in vocabulary:
        if piece in scores or not math.isfinite(score):
            raise CheckpointError(
                f"import: '{folder.path / TOKENIZER}': each piece must stand there once, with a "
                f"finite score; got {piece!r} twice, or with {score!r}."
            )
        scores[piece] = float(score)
    return scores


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
    model = read_pieces(folder.path / pieces)
    numbers = _numbers(folder, folder.json(words))
    scores = {piece: model.scores.get(piece, FLOOR) for piece in numbers}
    return _adopted(folder, SENTENCEPIECE, numbers, roles, {"normalizer": model.changes}, scores)


def _adopted(
    folder: Folder,
    kind: Kind,
    numbers: Mapping[str, int],
    roles: Roles,
    settings: Mapping[str, Any],
    scores: Mapping[str, float],
) -> Vocabulary:
    """Pieces in our order, as sub-words, and the row of each.

    Args:
        folder: where they come from.
        kind: how text is cut.
        numbers: of their pieces.
        roles: which of them take the places of our special ones.
        settings: of the kind.
        scores: of pieces, for kinds that have them.
    """
    playing = [piece for piece in (*roles.specials, roles.mask) if piece is not None]
    taken = {piece for piece in playing if piece in numbers}
    clash = sorted((set(SPECIALS) | {MASK_PIECE}) & set(numbers) - taken)
    if clash:
        raise CheckpointError(
            f"import: '{folder.path}': the vocabulary has {clash} beside {sorted(taken)}; these "
            "names are taken here."
        )
    if roles.end not in numbers:
        raise CheckpointError(
            f"import: '{folder.path}': the vocabulary has no '{roles.end}', which ends a text in "
            "models of this family."
        )
    # a begin piece that is also another one is read, but the other one is what is said
    shared = roles.begin in (roles.padding, roles.end)
    ours = [
        (name, Row(None if piece is None else numbers.get(piece), is_said=not (begins and shared)))
        for name, piece, begins in zip(
            SPECIALS, roles.specials, (False, True, False, False), strict=True
        )
    ]
    if roles.mask is not None and roles.mask in numbers:
        ours.append((MASK_PIECE, Row(numbers[roles.mask])))
    rest = sorted(numbers.keys() - taken, key=lambda piece: numbers[piece])
    ours += [(piece, Row(numbers[piece])) for piece in rest]
    if len({numbers[piece] for piece in rest}) != len(rest):
        raise CheckpointError(f"import: '{folder.path}': two pieces have one number.")
    pieces = [piece for piece, _ in ours]
    known: Any = (
        [[piece, scores.get(piece, 0.0 if piece in SPECIALS else FLOOR)] for piece in pieces]
        if scores
        else {piece: number for number, piece in enumerate(pieces)}
    )
    try:
        tokenizer = kind.rebuild({**settings, "vocab": known})
    except Exception as error:
        raise CheckpointError(f"import: '{folder.path}': its vocabulary: {error}.") from error
    return Vocabulary(Subwords(kind, tokenizer), tuple(row for _, row in ours))


def _numbers(folder: Folder, vocabulary: Any) -> dict[str, int]:
    if not isinstance(vocabulary, dict) or not all(
        isinstance(piece, str) and type(number) is int and number >= 0
        for piece, number in vocabulary.items()
    ):
        raise CheckpointError(
            f"import: '{folder.path}': its vocabulary must give each piece a number."
        )
    return dict(vocabulary)


def _type(model: Mapping[str, Any]) -> str:
    """What kind of model a file holds; older files leave it to be seen from what they have."""
    if "type" in model:
        return str(model["type"])
    if "merges" in model:
        return "BPE"
    return "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _wordpiece(
    folder: Folder, model: Mapping[str, Any], cut: Mapping[str, Any], changes: Any
) -> tuple[Kind, dict[str, Any]]:
    _check(folder, "continuing_subword_prefix", model.get("continuing_subword_prefix"), (PART,))
    _check(folder, "pre_tokenizer", cut.get("type"), ("BertPreTokenizer",))
    longest = model.get("max_input_chars_per_word", MAX_CHARACTERS)
    _check(folder, "max_input_chars_per_word", longest, (MAX_CHARACTERS,))
    return WORDPIECE, {"normalizer": changes}


def _bpe(
    folder: Folder, model: Mapping[str, Any], cut: Mapping[str, Any], changes: Any
) -> tuple[Kind, dict[str, Any]]:
    _check(folder, "pre_tokenizer", cut.get("type"), ("ByteLevel",))
    _check(folder, "add_prefix_space", cut.get("add_prefix_space"), (False,))
    _check(folder, "normalizer", changes, (None,))
    _check(folder, "use_regex", cut.get("use_regex", True), (True,))
    for name in ("ignore_merges", "byte_fallback", "dropout"):
        _check(folder, name, model.get(name), (None, False))
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        _check(folder, name, model.get(name), (None, ""))
    merges = [m.split(" ") if isinstance(m, str) else m for m in model.get("merges", [])]
    return BPE, {"merges": merges}


def _unigram(
    folder: Folder, model: Mapping[str, Any], cut: Mapping[str, Any], changes: Any
) -> tuple[Kind, dict[str, Any]]:
    *before, last = cut.get("pretokenizers") or [cut]
    _check(folder, "pre_tokenizer", last.get("type"), ("Metaspace",))
    for one in before:
        _check(folder, "pre_tokenizer", one.get("type"), ("WhitespaceSplit",))
    # older files say add_prefix_space
    _check(folder, "add_prefix_space", last.get("add_prefix_space", True), (True,))
    _check(folder, "prepend_scheme", last.get("prepend_scheme", "always"), ("always",))
    _check(folder, "replacement", last.get("replacement", SPACE), (SPACE,))
    _check(folder, "split", last.get("split", True), (True,))
    _check(folder, "byte_fallback", model.get("byte_fallback", False), (False,))
    parts = changes.get("normalizers", [changes]) if isinstance(changes, dict) else []
    for part in parts:
        _check(folder, "normalizer", part.get("type"), CHANGES)
        if part.get("type") == "Replace":
            _check(folder, "pattern", part.get("pattern"), (SEVERAL_SPACES,))
            _check(folder, "content", part.get("content"), (" ", SPACE))
    return SENTENCEPIECE, {"normalizer": changes}


ADOPTING = {"WordPiece": _wordpiece, "BPE": _bpe, "Unigram": _unigram}
"""How a tokenizer file is read, by the kind of its model."""


def _check(folder: Folder, name: str, value: Any, able: Sequence[Any]) -> None:
    if value not in able:
        said = " or ".join(repr(one) for one in able)
        raise CheckpointError(
            f"import: '{folder.path / TOKENIZER}': '{name}' must be {said}, got {value!r}: such "
            "vocabularies are not read."
        )
