"""Vocabulary files: read as data and checked piece by piece before a vocabulary is built.

Only the pieces, their merges, their scores and which of them stand around every text are taken from
a file. The kind decides here how text is cut, so that a file cannot change the behaviour.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from regard.data.files import Unreadable, check_is_file, read_json
from regard.data.labels import LABELS_OF_TEXTS
from regard.data.parsed_words import PARSED_WORDS
from regard.data.published_subwords import PUBLISHED_KINDS
from regard.data.subword_kinds import KINDS, SPECIALS, Kind, framed
from regard.errors import DataError

MAX_PIECES = 1 << 20
MAX_BYTES = 1 << 28
ALL_KINDS: Mapping[str, Kind] = {**KINDS, **PUBLISHED_KINDS, PARSED_WORDS.name: PARSED_WORDS}
"""All kinds of sub-words that texts may have."""
FILE_KINDS: Mapping[str, Kind] = {**ALL_KINDS, LABELS_OF_TEXTS.name: LABELS_OF_TEXTS}
"""All kinds that a file may have."""


def read_vocabulary(path: Path) -> tuple[Kind, Tokenizer]:
    """The kind and the vocabulary of a file that `Subwords.save` wrote."""
    check_is_file(path)
    try:
        return _read(path)
    except Unreadable as error:
        raise DataError(
            f"subwords: '{path}' is no vocabulary: {error}. Give a file that regard wrote."
        ) from error


def _read(path: Path) -> tuple[Kind, Tokenizer]:
    if path.stat().st_size > MAX_BYTES:
        raise Unreadable(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        content = read_json(path)
    except Unreadable as error:
        raise Unreadable(f"it {error}") from error
    kind, model = _kind(content)
    pieces = _pieces(model.get("vocab"))
    missing = sorted(kind.needs - set(pieces))
    if missing:
        raise Unreadable(f"it lacks the bytes {' '.join(missing[:5])}")
    if kind.model == "BPE":
        _check_merges(model.get("merges"), set(pieces))
    before, after = _frame(content.get("post_processor"), set(pieces))
    try:
        return kind, framed(kind.rebuild(model), before, after)
    except Exception as error:
        raise Unreadable(str(error)) from error


def _frame(said: Any, pieces: set[str]) -> tuple[list[str], list[str]]:
    """The pieces that stand before and after every text."""
    if said is None:
        return [], []
    frame: list[list[str]] = [[]]
    template = said.get("single") if isinstance(said, dict) else None
    for part in template if isinstance(template, list) else [None]:
        match part:
            case {"SpecialToken": {"id": str() as piece}} if piece in pieces - {*SPECIALS}:
                frame[-1].append(piece)
            case {"Sequence": {"id": "A"}} if len(frame) == 1:
                frame.append([])
            case _:
                raise Unreadable(f"its frame {json.dumps(said)[:60]} is not of its pieces")
    if len(frame) < 2:
        raise Unreadable("its frame holds no text")
    return frame[0], frame[1]


def _kind(content: Any) -> tuple[Kind, Mapping[str, Any]]:
    parts = content if isinstance(content, dict) else {}
    model, cut = parts.get("model"), parts.get("pre_tokenizer")
    if not isinstance(model, dict) or not isinstance(cut, dict):
        raise Unreadable("it has no 'model' and 'pre_tokenizer'")
    for kind in FILE_KINDS.values():
        if (kind.model, kind.cut) == (model.get("type"), cut.get("type")):
            # published kinds differ in how they normalise a text before it is cut
            return kind, {**model, "normalizer": parts.get("normalizer"), "pre_tokenizer": cut}
    raise Unreadable(
        f"a model {model.get('type')!r} behind a {cut.get('type')!r} is none of "
        f"{', '.join(ALL_KINDS)}"
    )


def _pieces(vocabulary: Any) -> list[str]:
    """The pieces in the order of their numbers."""
    if not isinstance(vocabulary, dict | list):
        raise Unreadable("it has no list of pieces")
    if not len(SPECIALS) < len(vocabulary) <= MAX_PIECES:
        raise Unreadable(
            f"it has {len(vocabulary)} pieces; expected {len(SPECIALS) + 1} to {MAX_PIECES}"
        )
    pieces = _numbered(vocabulary) if isinstance(vocabulary, dict) else _scored(vocabulary)
    if tuple(pieces[: len(SPECIALS)]) != SPECIALS:
        raise Unreadable(f"its first pieces are not {' '.join(SPECIALS)}")
    return pieces


def _numbered(vocabulary: dict[str, Any]) -> list[str]:
    numbers = list(vocabulary.values())
    if any(type(n) is not int for n in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise Unreadable(f"its numbers are not 0 to {len(numbers) - 1}, each once")
    return sorted(vocabulary, key=lambda piece: vocabulary[piece])


def _scored(vocabulary: list[Any]) -> list[str]:
    for entry in vocabulary:
        match entry:
            case [str(), int() | float() as score] if math.isfinite(score):
                continue
        raise Unreadable(f"{json.dumps(entry)[:40]} is not a piece with its score")
    pieces = [piece for piece, _ in vocabulary]
    if len(set(pieces)) != len(pieces):
        raise Unreadable("a piece stands in it twice")
    return pieces


def _check_merges(merges: Any, pieces: set[str]) -> None:
    if not isinstance(merges, list):
        raise Unreadable("it has no list of merges")
    for merge in merges:
        match merge:
            case [str() as left, str() as right] if {left, right, left + right} <= pieces:
                continue
        raise Unreadable(f"the merge {json.dumps(merge)[:40]} is not of its pieces")
