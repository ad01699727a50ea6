"""Records in one file, without pickle: safetensors for the numbers, JSON for the rest.

A lazy map is kept as it is, query, key and row numbers, optionally in half precision; reading it
back maps the file into memory, so that only the rows that are used are read. A map that is not one
of our chains is kept as its weights, if these are few enough. A caption's record has its picture's
pixels with it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.attention import AttentionMap
from regard.data.atomic_writes import as_any_file, written_beside
from regard.data.boxes import Box
from regard.data.files import Unreadable, check_is_regular, parse_json
from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.errors import DataError, LengthError
from regard.inspecting.caption_record import CaptionRecord, picture_facts
from regard.inspecting.lazy_map import LazyMap
from regard.inspecting.plain_data import Tensors, as_plain, from_plain
from regard.inspecting.record import MAX_MATRIX_WEIGHTS, Attention, Record, Weights, check_is_record
from regard.inspecting.token_labels import Tokens
from regard.layers.vision.image_encoder import GridSize

FORM = "regard record 1"
"""The form that the header of a record's file names."""
CAPTION_FORM = "regard caption record 1"
"""The form that the header of a caption's record names."""
MAX_HALF_ERROR = 1e-3
"""How much half precision may change a weight."""
CHECKED_ROWS = 64
"""Rows that are compared at a time; of a very large map, the number compared in all."""
REMEDY = "Give the folder of a run, or a record made by save_record or save_caption."
"""What to do about a file that is no record."""
LINKS = ("rows", "places", "mask", "score", "relation", "select", "columns")
"""The fields of a map beside query and key."""


@final
@dataclass(frozen=True)
class DenseWeights:
    """Weights that are stored themselves, not rebuilt from query and key."""

    weights: Float[Tensor, "1 h q k"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix."""
        return tuple(self.weights.shape)

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "1 h r c"]:
        """The weights of one rectangle."""
        return self.weights[..., rows, columns].float()


def save_record(record: Record, path: Path | str, *, is_half: bool = False) -> None:
    """Write a record to one file, such as `look.safetensors`.

    With `is_half`, queries and keys are kept in half precision: half the size. A layer in which
    that would change a weight by more than 0.001 is kept whole; of a very long text some rows are
    compared.
    """
    check_is_record("save_record", record)
    tensors = Tensors()
    plain = {"form": FORM, **_record_as_plain(record, tensors, is_half=is_half)}
    _write_file(plain, tensors, Path(path))


def load_record(path: Path | str) -> Record:
    """Read a record; its numbers stay in the file until they are looked at."""
    plain, tensor = _read_file(path, FORM)
    with _made_from(path):
        return _record_from_plain(plain, tensor)


def save_caption(record: CaptionRecord, path: Path | str) -> None:
    """Write a caption's record to one file, its picture's pixels with it."""
    tensors, picture = Tensors(), record.picture
    plain = {
        "form": CAPTION_FORM,
        "picture": {
            **picture_facts(picture),
            "pixels": as_plain(torch.tensor(picture.pixels), tensors),
        },
        "framing": asdict(record.framing),
        "grid": list(record.grid),
        "covered": list(record.covered),
        "gates": None if record.piece_gates is None else list(record.piece_gates),
        "versions": dict(record.versions),
        "read": _record_as_plain(record.read, tensors),
    }
    _write_file(plain, tensors, Path(path))


def load_caption(path: Path | str) -> CaptionRecord:
    """Read a caption's record."""
    plain, tensor = _read_file(path, CAPTION_FORM)
    with _made_from(path):
        picture, framing = plain["picture"], plain["framing"]
        pixels, notes = from_plain(picture["pixels"], tensor).numpy(), tuple(picture["notes"])
        return CaptionRecord(
            Picture(picture["name"], pixels, picture["width"], picture["height"], notes),
            Framing(framing["width"], framing["height"], framing["size"], Box(*framing["box"])),
            GridSize(*plain["grid"]),
            Box(*plain["covered"]),
            _record_from_plain(plain["read"], tensor),
            None if plain["gates"] is None else tuple(plain["gates"]),
            plain["versions"],
        )


def _record_as_plain(record: Record, tensors: Tensors, *, is_half: bool = False) -> dict[str, Any]:
    """A record as plain data; its numbers are kept beside it."""
    return {
        "source": record.source,
        "target": record.target,
        "versions": dict(record.versions),
        "note": record.note,
        "attention": {
            kind: {
                "queries": one.queries.as_json(),
                "keys": one.keys.as_json(),
                "titles": [one.query_title, one.key_title],
                "mechanism": one.mechanism,
                "mask": one.mask,
                "layers": [_layer(layer, tensors, is_half=is_half) for layer in one.layers],
            }
            for kind, one in record.attention.items()
        },
    }


def _record_from_plain(plain: Mapping[str, Any], tensor: Callable[[str], Tensor]) -> Record:
    kinds = {
        kind: Attention(
            Tokens.from_json(one["queries"]),
            Tokens.from_json(one["keys"]),
            tuple(_read_layer(layer, tensor) for layer in one["layers"]),
            one["titles"][0],
            one["titles"][1],
            one["mechanism"],
            one["mask"],
        )
        for kind, one in plain["attention"].items()
    }
    return Record(
        plain["source"], plain["target"], kinds, versions=plain["versions"], note=plain.get("note")
    )


def _write_file(plain: Mapping[str, Any], tensors: Tensors, path: Path) -> None:
    """Write to a temporary file, then rename it, so that no partial file is left."""
    if not path.parent.is_dir():
        raise DataError(f"record: there is no folder '{path.parent}' for '{path.name}'. Make it.")
    with written_beside(path, writer=os.getpid()) as partial, as_any_file(partial):
        save_file(_apart(tensors.named), partial, metadata={"record": json.dumps(plain)})


def _read_file(path: Path | str, form: str) -> tuple[dict[str, Any], Callable[[str], Tensor]]:
    """The plain data of a file of this form, and a function that gives its tensors by name."""
    try:
        check_is_regular(Path(path))
        file: Any = safe_open(str(path), framework="pt")
        plain = parse_json((file.metadata() or {}).get("record", "{}"))
    except Unreadable as error:
        raise DataError(f"record: '{path}' {error}. Make it again with save_record.") from error
    except (OSError, SafetensorError) as error:
        why = str(error).removeprefix("Error while deserializing header: ")
        raise DataError(f"record: '{path}' cannot be read as a record ({why}). {REMEDY}") from error
    found_form = plain.get("form") if isinstance(plain, dict) else None
    if found_form is None:
        raise DataError(f"record: '{path}' is no record. {REMEDY}")
    if found_form != form:
        raise DataError(
            f"record: '{path}' is no record that this version reads; expected '{form}', got "
            f"'{found_form}'. Make it again with save_record or save_caption."
        )
    names = frozenset(file.keys())

    @cache
    def tensor(name: str) -> Tensor:
        if name not in names:
            raise DataError(f"record: '{path}' lacks the numbers '{name}'; it is damaged.")
        # in a file numbers stand anywhere, and a product's last digit depends on their alignment
        return file.get_tensor(name).clone()

    return plain, tensor


@contextmanager
def _made_from(path: Path | str) -> Iterator[None]:
    """Turn the errors of building a record from a file's plain data into a `DataError`."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(
            f"record: '{path}' is damaged: its data do not make a record. Make it again with "
            "save_record or save_caption."
        ) from error


def _layer(layer: Weights, tensors: Tensors, *, is_half: bool) -> dict[str, object]:
    lazy = layer.map if isinstance(layer, LazyMap) and len(layer.map.query) == 1 else layer
    if not isinstance(lazy, AttentionMap):
        return _dense(layer, tensors)
    lazy = _halved(lazy) if is_half else lazy
    has_norms = lazy.norms is not None or lazy.value is not None
    return {
        "precision": _name(lazy.precision or lazy.query.dtype),
        **{name: as_plain(getattr(lazy, name), tensors) for name in ("query", "key", *LINKS)},
        "norms": as_plain(lazy.value_norms() if has_norms else None, tensors),
    }


def _dense(layer: Weights, tensors: Tensors) -> dict[str, object]:
    size = torch.Size(layer.shape).numel()
    if size > MAX_MATRIX_WEIGHTS:
        raise LengthError(
            f"record: a map of {size:,} weights that is no chain of ours can only be saved weight "
            f"by weight, and at most {MAX_MATRIX_WEIGHTS:,} are. Take a shorter text."
        )
    return {"weights": as_plain(layer.tile(slice(None), slice(None)), tensors)}


def _halved(lazy: AttentionMap) -> AttentionMap:
    """The map with queries and keys in half precision, unless that would change its weights."""
    precision = _read_in(_name(lazy.precision or lazy.query.dtype))
    half = replace(lazy, query=lazy.query.half(), key=lazy.key.half(), precision=precision)
    n_rows, n_weights = lazy.shape[-2], torch.Size(lazy.shape).numel()
    step = max(1, n_rows // CHECKED_ROWS) if n_weights > MAX_MATRIX_WEIGHTS else 1
    for first in range(0, n_rows, CHECKED_ROWS * step):
        rows = slice(first, first + CHECKED_ROWS * step, step)
        apart = lazy.tile(rows, slice(None)).float() - half.tile(rows, slice(None)).float()
        # a number that is too large for half precision makes this infinite
        if not float(apart.abs().max()) <= MAX_HALF_ERROR:
            return lazy
    return half


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def _read_in(name: str) -> torch.dtype:
    """The precision in which a map is read, by the precision in which it was made."""
    return torch.float64 if name == "float64" else torch.float32


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, copied where two share memory, since a safetensors file has no views."""
    seen: set[int] = set()
    out = {}
    for name, tensor in tensors.items():
        kept = tensor.cpu().contiguous()
        start = kept.untyped_storage().data_ptr()
        out[name] = kept.clone() if start in seen else kept
        seen.add(start)
    return out


def _read_layer(plain: Mapping[str, Any], tensor: Callable[[str], Tensor]) -> Weights:
    if "weights" in plain:
        return DenseWeights(from_plain(plain["weights"], tensor))
    query, key = (from_plain(plain[side], tensor) for side in ("query", "key"))
    precision = _read_in(plain["precision"])
    return AttentionMap(
        query=query,
        key=key,
        norms=from_plain(plain["norms"], tensor),
        precision=None if query.dtype == precision else precision,
        **{name: from_plain(plain[name], tensor) for name in LINKS},
    )
