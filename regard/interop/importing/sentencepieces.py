"""A sentencepiece file (.spm), read byte by byte: pieces, their scores, a table of characters.

    field 1   a piece:        1 its text, 2 its score (32-bit float), 3 its type
    field 2   the trainer:    3 the kind of model (1 is unigram, 2 is byte pairs)
    field 3   the normaliser: 2 the table of characters

The format is that of protocol buffers: a number gives the next field and its encoding, then
follows the field. Fields that are not named above are passed over.

Paper: Kudo & Richardson 2018.
"""

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import CheckpointError
from regard.interop.importing.folder import MAX_BYTES

UNIGRAM, PAIRS = 1, 2
NORMAL, USER = 1, 4
"""The types of pieces that texts are cut into."""


class SpacedPieces(NamedTuple):
    """The pieces of a file, as a tokenizer file holds them."""

    scores: dict[str, float]
    """The log-probability of each piece, or its negative rank where pairs are merged."""
    merges: list[tuple[str, str]] | None
    """The pairs that are merged, the first ones first; None where the likeliest row is taken."""
    changes: dict[str, Any] | None
    """The table of characters, if there is one."""


def read_pieces(path: Path) -> SpacedPieces:
    """The pieces of a file; one that is damaged, or of another kind, is refused."""
    if path.stat().st_size > MAX_BYTES:
        raise CheckpointError(f"import: '{path}' is larger than {MAX_BYTES >> 20} MiB.")
    scores: dict[str, float] = {}
    table, kind = b"", UNIGRAM
    try:
        for number, field in _fields(path.read_bytes()):
            if number == 1:
                piece = dict(_fields(_bytes(field)))
                if piece.get(3, NORMAL) in (NORMAL, USER):
                    text = _bytes(piece[1]).decode("utf-8")
                    scores[text] = struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]
            elif number == 2:
                kind = _whole(dict(_fields(_bytes(field))).get(3, UNIGRAM))
                if kind not in (UNIGRAM, PAIRS):
                    raise CheckpointError(
                        f"import: '{path}' must be a model of unigrams or pairs, got kind "
                        f"{kind!r}: such vocabularies are not read."
                    )
            elif number == 3:
                table = _bytes(dict(_fields(_bytes(field))).get(2, b""))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise CheckpointError(f"import: '{path}' is no sentencepiece model: {error}.") from error
    if not scores:
        raise CheckpointError(f"import: '{path}' is no sentencepiece model: it has no pieces.")
    changes = {
        "type": "Precompiled",
        "precompiled_charsmap": base64.b64encode(table).decode("ascii"),
    }
    merges = _merges(scores) if kind == PAIRS else None
    return SpacedPieces(scores, merges, changes if table else None)


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """The pairs that make each piece, the piece with the highest score first."""
    ranked = sorted(scores, key=lambda piece: -scores[piece])
    rank = {piece: number for number, piece in enumerate(ranked)}
    return [
        pair
        for piece in ranked
        for pair in sorted(
            ((piece[:i], piece[i:]) for i in range(1, len(piece))),
            key=lambda pair: [rank.get(half, len(rank)) for half in pair],
        )
        if pair[0] in rank and pair[1] in rank
    ]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: whole numbers, or the bytes of everything else."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        how = key & 7
        if how == 0:
            value: int | bytes
            value, at = _number(data, at)
        else:
            length = {1: 8, 5: 4}.get(how)
            if how == 2:
                length, at = _number(data, at)
            if length is None or at + length > len(data):
                raise IndexError("a field does not fit")
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            return value, at


def _whole(field: int | bytes) -> int:
    if isinstance(field, bytes):
        raise TypeError("bytes stand where a number should")
    return field


def _bytes(field: int | bytes) -> bytes:
    if isinstance(field, int):
        raise TypeError("a number stands where bytes should")
    return field
