"""Records in one file, without pickle: safetensors for the numbers, JSON for the rest.

A lazy map is kept as it is, query, key and row numbers, in half precision if one wishes; reading it
back maps the file into memory, so that only what is looked at is ever read. A map that is no chain
of ours is kept as its weights, where these are few enough.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.attention import AttentionMap
from regard.data.atomic_writes import written_beside
from regard.data.permissions import as_any_file
from regard.data.regular_files import Unreadable, check_is_regular, parse_json
from regard.errors import DataError, LengthError
from regard.inspecting.lazy_map import Later
from regard.inspecting.plain_data import Tensors, read, written
from regard.inspecting.record import LARGEST, Attention, Record, Weights, tokens_as_json
from regard.inspecting.token_labels import Tokens

FORM = "regard record 1"
"""What the header of a file says it is."""
CLOSE = 1e-3
"""How much half precision may change a weight."""
CHECKED = 64
"""Rows that are compared at a time; in a map of more than `LARGEST` weights, all that are."""
LINKS = ("rows", "places", "mask", "score", "relation", "select", "columns")
"""What a map holds beside query and key."""


@final
@dataclass(frozen=True)
class Kept:
    """Weights that were written down one by one."""

    weights: Float[Tensor, "1 h q k"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix."""
        return tuple(self.weights.shape)

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "1 h r c"]:
        """The weights of one rectangle."""
        return self.weights[..., rows, columns].float()


def save_record(record: Record, path: Path | str, *, is_half: bool = False) -> None:
    """Write a record to one file.

    Args:
        record: whatever `look` or `capture` gave.
        path: such as `look.safetensors`.
        is_half: keep queries and keys in half precision: half the size. A layer in which that
            would change a weight by more than 0.001 is kept whole; of a very long text some rows
            are compared.
    """
    tensors = Tensors()
    told = {"form": FORM, **as_plain(record, tensors, is_half=is_half)}
    write_file(told, tensors, Path(path))


def load_record(path: Path | str) -> Record:
    """Read a record; its numbers stay in the file until somebody looks at them."""
    told, tensor = read_file(path, FORM)
    with made_from(path):
        return from_plain(told, tensor)


def as_plain(record: Record, tensors: Tensors, *, is_half: bool = False) -> dict[str, Any]:
    """A record as plain data; its numbers are kept beside it."""
    return {
        "source": record.source,
        "target": record.target,
        "versions": dict(record.versions),
        "note": record.note,
        "attention": {
            kind: _attention(one, tensors, is_half=is_half)
            for kind, one in record.attention.items()
        },
    }


def from_plain(told: Mapping[str, Any], tensor: Callable[[str], Tensor]) -> Record:
    """The record that plain data stands for."""
    kinds = {kind: _read_attention(one, tensor) for kind, one in told["attention"].items()}
    return Record(
        told["source"], told["target"], kinds, versions=told["versions"], note=told.get("note")
    )


def write_file(told: Mapping[str, Any], tensors: Tensors, path: Path) -> None:
    """Write plain data and tensors beside the name, then rename: nothing is left half-written."""
    with written_beside(path, writer=os.getpid()) as partial, as_any_file(partial):
        save_file(_apart(tensors.named), partial, metadata={"record": json.dumps(told)})


def read_file(path: Path | str, form: str) -> tuple[dict[str, Any], Callable[[str], Tensor]]:
    """The plain data of a file, and what finds its tensors.

    Args:
        path: of the file.
        form: what its header has to say that it is.
    """
    try:
        check_is_regular(Path(path))
        file: Any = safe_open(str(path), framework="pt")
        told = parse_json((file.metadata() or {}).get("record", "{}"))
    except Unreadable as error:
        raise DataError(f"record: '{path}' {error}. Make it again with save_record.") from error
    except (OSError, SafetensorError) as error:
        raise DataError(f"record: '{path}' cannot be read as a record: {error}.") from error
    found_form = told.get("form") if isinstance(told, dict) else None
    if found_form != form:
        raise DataError(
            f"record: '{path}' is no record that this version reads; expected '{form}', got "
            f"'{found_form}'. Make it again with save_record or save_caption."
        )
    found: dict[str, Tensor] = {}
    names = frozenset(file.keys())

    def tensor(name: str) -> Tensor:
        if name not in names:
            raise DataError(f"record: '{path}' lacks the numbers '{name}'; it is damaged.")
        if name not in found:
            found[name] = file.get_tensor(name)
        return found[name]

    return told, tensor


@contextmanager
def made_from(path: Path | str) -> Iterator[None]:
    """Where a record is made of the plain data of a file; data of another shape is an error."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(
            f"record: '{path}' is damaged: its data do not make a record. Make it again with "
            "save_record or save_caption."
        ) from error


def _attention(one: Attention, tensors: Tensors, *, is_half: bool) -> dict[str, object]:
    return {
        "queries": tokens_as_json(one.queries),
        "keys": tokens_as_json(one.keys),
        "titles": [one.query_title, one.key_title],
        "mechanism": one.mechanism,
        "mask": one.mask,
        "layers": [_layer(layer, tensors, is_half=is_half) for layer in one.layers],
    }


def _layer(layer: Weights, tensors: Tensors, *, is_half: bool) -> dict[str, object]:
    lazy = layer.map if isinstance(layer, Later) and len(layer.map.query) == 1 else layer
    if not isinstance(lazy, AttentionMap):
        return _dense(layer, tensors)
    lazy = _halved(lazy) if is_half else lazy
    has_norms = lazy.norms is not None or lazy.value is not None
    return {
        "precision": _name(lazy.precision or lazy.query.dtype),
        **{name: written(getattr(lazy, name), tensors) for name in ("query", "key", *LINKS)},
        "norms": written(lazy.value_norms() if has_norms else None, tensors),
    }


def _dense(layer: Weights, tensors: Tensors) -> dict[str, object]:
    size = torch.Size(layer.shape).numel()
    if size > LARGEST:
        raise LengthError(
            f"record: a map of {size:,} weights that is no chain of ours can only be saved weight "
            f"by weight, and at most {LARGEST:,} are. Take a shorter text."
        )
    return {"weights": written(layer.tile(slice(None), slice(None)), tensors)}


def _halved(lazy: AttentionMap) -> AttentionMap:
    """The same with queries and keys in half precision, unless that would change its weights."""
    precision = PRECISIONS.get(_name(lazy.precision or lazy.query.dtype), torch.float32)
    half = replace(lazy, query=lazy.query.half(), key=lazy.key.half(), precision=precision)
    n_rows, n_weights = lazy.shape[-2], torch.Size(lazy.shape).numel()
    step = max(1, n_rows // CHECKED) if n_weights > LARGEST else 1
    for first in range(0, n_rows, CHECKED * step):
        rows = slice(first, first + CHECKED * step, step)
        apart = lazy.tile(rows, slice(None)).float() - half.tile(rows, slice(None)).float()
        # a number that is too large for half precision makes this infinite
        if not float(apart.abs().max()) <= CLOSE:
            return lazy
    return half


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same, none of them sharing memory with another: a file has no views."""
    seen: set[int] = set()
    out = {}
    for name, tensor in tensors.items():
        kept = tensor.cpu().contiguous()
        start = kept.untyped_storage().data_ptr()
        out[name] = kept.clone() if start in seen else kept
        seen.add(start)
    return out


def _read_tokens(told: Mapping[str, Any]) -> Tokens:
    pieces, words, names = (tuple(told[name]) for name in ("pieces", "words", "names"))
    return Tokens(pieces, words, names, frozenset(told["specials"]))


def _read_attention(told: Mapping[str, Any], tensor: Callable[[str], Tensor]) -> Attention:
    query_title, key_title = told["titles"]
    return Attention(
        _read_tokens(told["queries"]),
        _read_tokens(told["keys"]),
        tuple(_read_layer(layer, tensor) for layer in told["layers"]),
        query_title,
        key_title,
        told["mechanism"],
        told["mask"],
    )


def _read_layer(told: Mapping[str, Any], tensor: Callable[[str], Tensor]) -> Weights:
    if "weights" in told:
        return Kept(read(told["weights"], tensor))
    query, key = (read(told[side], tensor) for side in ("query", "key"))
    precision = PRECISIONS.get(told["precision"], torch.float32)
    return AttentionMap(
        query=query,
        key=key,
        norms=read(told["norms"], tensor),
        precision=None if query.dtype == precision else precision,
        **{name: read(told[name], tensor) for name in LINKS},
    )


PRECISIONS = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.float32,
    "float16": torch.float32,
}
"""What a map is read in, by what it was made in."""
