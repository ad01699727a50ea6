"""A sentencepiece file (.spm), read byte by byte: pieces, their scores, a table of characters.

    field 1   a piece:        1 its text, 2 its score (32-bit float), 3 its type
    field 2   the trainer:    3 the kind of model (1 is unigram)
    field 3   the normaliser: 2 the table of characters

The format is that of protocol buffers: a number gives the next field and its encoding, then
follows the field. Fields that are not named above are passed over.

Paper: Kudo & Richardson 2018.
"""

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError
from regard.interop.importing.folder import MAX_BYTES

UNIGRAM = 1
NORMAL, USER = 1, 4
"""The types of pieces that texts are cut into."""


def read_pieces(path: Path) -> tuple[dict[str, float], dict[str, Any] | None]:
    """The log-probability of each piece, and the characters' table as a tokenizer file holds it.

    A file that is damaged, or of another kind than unigram, is refused.
    """
    if path.stat().st_size > MAX_BYTES:
        raise CheckpointError(f"import: '{path}' is larger than {MAX_BYTES >> 20} MiB.")
    scores: dict[str, float] = {}
    table = b""
    try:
        for number, field in _fields(path.read_bytes()):
            if number == 1:
                piece = dict(_fields(_bytes(field)))
                if piece.get(3, NORMAL) in (NORMAL, USER):
                    text = _bytes(piece[1]).decode("utf-8")
                    scores[text] = struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]
            elif number == 2:
                kind = dict(_fields(_bytes(field))).get(3, UNIGRAM)
                if kind != UNIGRAM:
                    raise CheckpointError(
                        f"import: '{path}' must be a unigram model, got kind {kind!r}: such "
                        "vocabularies are not read."
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
    return scores, changes if table else None


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


def _bytes(field: int | bytes) -> bytes:
    if isinstance(field, int):
        raise TypeError("a number stands where bytes should")
    return field
