"""A table of a recipe → a frozen dataclass, with every mistake collected and none raised.

Errors of unknown keys name the nearest known one, those of wrong types the expected type, and
those of a dataclass's own checks the full path of the key.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.choices import Choice, unknown
from regard.data.files import Unreadable, is_text
from regard.errors import RegardError, UnknownChoice

T = TypeVar("T")


@dataclasses.dataclass
class Mistakes:
    """The mistakes of a recipe, by the path of the key."""

    found: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def add(self, path: str, text: str) -> None:
        """Remember one mistake, once."""
        if (path, text) not in self.found:
            self.found.append((path, text))


def read_section(
    kind: type[T], table: Mapping[str, Any], path: str, mistakes: Mistakes
) -> T | None:
    """Make the dataclass, or None if something in the table is wrong."""
    fields, values = _fields(kind), read_parts(kind, table, path, mistakes)
    is_whole = not any(where.startswith(f"{path}.") for where, _ in mistakes.found)
    may_leave_out = {name for name, has_default in fields.items() if has_default}
    if values.keys() | may_leave_out < fields.keys():
        return None
    while True:
        try:
            made = kind(**values)
        except RegardError as error:
            # missing keys have their defaults, and with these only an unknown name is surely wrong
            if is_whole or isinstance(error, UnknownChoice):
                mistakes.add(path, str(error))
            is_whole, key = False, named_key(str(error)).removeprefix(f"{path}.")
            if key not in values.keys() & may_leave_out:
                return None
            del values[key]
        else:
            return made if is_whole else None


def read_fields(kind: type[T], held: Any) -> T:
    """Make the dataclass from the value of a JSON file; the first mistake raises `Unreadable`."""
    if not isinstance(held, dict):
        raise Unreadable(f"must hold an object, got {repr(held)[:40]}")
    mistakes = Mistakes()
    made = read_section(kind, held, "", mistakes)
    if made is None or mistakes.found:
        path, text = mistakes.found[0]
        wanted, _, got = text.rstrip(".").partition(", got ")
        if got:
            what = wanted.replace("must be", "must hold")
            raise Unreadable(f"{what} as '{path}', got {got[:40]}")
        raise Unreadable(f"has a mistake: '{path}': {wanted[:120]}")
    return made


def named_key(text: str) -> str:
    """The key that a check of a whole section begins with; it is named in full."""
    return text.split()[0].rstrip(":")


def read_parts(
    kind: type[Any], table: Mapping[str, Any], path: str, mistakes: Mistakes
) -> dict[str, Any]:
    """The valid fields of a dataclass in the table, each value in its type."""
    return _read(get_type_hints(kind), _fields(kind), table, path, mistakes)


def read_settings(
    function: Callable[..., Any], table: Mapping[str, Any], path: str, mistakes: Mistakes
) -> dict[str, Any] | None:
    """The table as arguments for a function that takes a split first; None if it is wrong."""
    _, *others = inspect.signature(function).parameters.values()
    fields = {one.name: one.default is not inspect.Parameter.empty for one in others}
    before = len(mistakes.found)
    values = _read(get_type_hints(function), fields, table, path, mistakes)
    return None if len(mistakes.found) > before else values


def _fields(kind: type[Any]) -> dict[str, bool]:
    """The names of a dataclass, and which of them have a default."""
    return {
        field.name: field.default is not dataclasses.MISSING
        or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(kind)
    }


def _read(
    hints: Mapping[str, Any],
    fields: Mapping[str, bool],
    table: Mapping[str, Any],
    path: str,
    mistakes: Mistakes,
) -> dict[str, Any]:
    """Every value in its type; `fields` gives the names, and whether each has a default."""
    values = {}
    for key, value in table.items():
        full = f"{path}.{key}" if path else key
        if key not in fields:
            mistakes.add(full, unknown(key, fields))
            continue
        before = len(mistakes.found)
        converted = _convert(hints[key], value, full, mistakes)
        if len(mistakes.found) == before:
            values[key] = converted
    for name, has_default in fields.items():
        if name not in table and not has_default:
            mistakes.add(f"{path}.{name}" if path else name, "is missing; it has no default.")
    return values


def _convert(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    """The value as the field's type, or a mistake."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if isinstance(value, str) and not is_text(value):
        mistakes.add(path, f"must be whole characters, got {value[:40]!a}.")
        return None
    for option in options:
        accepted, _ = _PLAIN.get(option, ((), ""))
        if value is None and option is type(None):
            return None
        if isinstance(value, accepted) and (option is bool or not isinstance(value, bool)):
            return option(value)
        if option is Choice and isinstance(value, dict | str):
            return _choice(value, path, mistakes)
        if option is not Choice and dataclasses.is_dataclass(option) and isinstance(value, dict):
            return _of_its_kind(options, value, path, mistakes)
        if get_origin(option) in (dict, Mapping) and isinstance(value, dict):
            inner = get_args(option)[1]
            return {k: _convert(inner, one, f"{path}.{k}", mistakes) for k, one in value.items()}
        if get_origin(option) in (tuple, Sequence) and isinstance(value, list | str):
            inner, several = get_args(option)[0], [value] if isinstance(value, str) else value
            return tuple(_convert(inner, each, path, mistakes) for each in several)
    wanted = " or ".join(_name(option) for option in options if option is not type(None))
    mistakes.add(path, f"must be {wanted}, got {value!r}.")
    return None


def _of_its_kind(
    options: Sequence[Any], table: Mapping[str, Any], path: str, mistakes: Mistakes
) -> Any:
    """Read the section as the one dataclass there is, or as the one whose `kind` it names."""
    sections = [option for option in options if dataclasses.is_dataclass(option)]
    if len(sections) == 1:
        return read_section(cast(type, sections[0]), table, path, mistakes)
    kinds = {cast(Any, each).kind: cast(type, each) for each in sections}
    name = str(table.get("kind", next(iter(kinds))))
    if name not in kinds:
        mistakes.add(f"{path}.kind", unknown(name, kinds))
        return None
    return read_section(kinds[name], table, path, mistakes)


def _choice(value: dict[str, Any] | str, path: str, mistakes: Mistakes) -> Choice | None:
    try:
        if isinstance(value, str):
            return Choice.parse(value)
    except RegardError as error:
        mistakes.add(path, str(error))
        return None
    settings = dict(value)
    name = settings.pop("name", None)
    if isinstance(name, str):
        return Choice(name, settings)
    mistakes.add(path, 'needs a name, as in { name = "additive", d_hidden = 128 }.')
    return None


_PLAIN: Mapping[Any, tuple[Any, str]] = {
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a text"),
    bool: (bool, "true or false"),
    Path: (str, "a path"),
    Choice: ((), "a name, or a table with a name"),
}
"""Types of settings: the types that TOML gives for them, and their names in errors."""


def _name(option: Any) -> str:
    other = "a list" if get_origin(option) is tuple else "a table"
    return _PLAIN.get(option, ((), other))[1]
