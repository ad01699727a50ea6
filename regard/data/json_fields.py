"""An object of JSON → a frozen dataclass: every field is there, and each has its type."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.data.regular_files import Unreadable, is_text

T = TypeVar("T")


def read_fields(kind: type[T], held: Any, path: str = "") -> T:
    """Make the dataclass; a field that is missing, unknown or of another type is refused.

    Args:
        kind: the dataclass; its fields are texts, numbers, mappings, tuples and dataclasses.
        held: what JSON gave.
        path: of `held` inside the whole, for errors.
    """
    if not isinstance(held, dict):
        raise _wrong(path, "an object", held)
    hints = get_type_hints(kind)
    if unknown := sorted(held.keys() - hints.keys()):
        raise Unreadable(f"has a field '{path}{unknown[0]}' that is not known")
    needed = {
        each.name
        for each in fields(cast(Any, kind))
        if each.default is MISSING and each.default_factory is MISSING
    }
    if missing := sorted(needed - held.keys()):
        raise Unreadable(f"lacks '{path}{missing[0]}'")
    return kind(**{name: _read(hints[name], each, path + name) for name, each in held.items()})


def _read(hint: Any, value: Any, path: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        hint = next(option for option in inner if option is not type(None))
        return _read(hint, value, path)
    if is_dataclass(hint):
        return read_fields(cast(type, hint), value, f"{path}.")
    if origin is tuple and isinstance(value, list):
        return tuple(_read(inner[0], each, path) for each in value)
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {name: _read(inner[1], each, f"{path}.{name}") for name, each in value.items()}
    # a whole number is a number, but true and false are neither
    if type(value) not in ((int, float) if hint is float else (hint,)):
        raise _wrong(path, NAMES.get(hint, "a list or an object"), value)
    if isinstance(value, str) and not is_text(value):
        raise _wrong(path, "whole characters", value)
    return value


NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _wrong(path: str, wanted: str, value: Any) -> Unreadable:
    name = f" as '{path.removesuffix('.')}'" if path else ""
    return Unreadable(f"must hold {wanted}{name}, got {repr(value)[:40]}")
