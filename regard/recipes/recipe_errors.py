"""Recipe errors: add to each mistake its place, a line of the file or a --set option."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from regard.choices import unknown
from regard.models import NAMED_SIZES, Spec
from regard.recipes.sections import named_key


def with_place(
    path: str, text: str, where: str, lines: Mapping[str, int], changes: Mapping[str, str]
) -> str:
    """The error of a key or a section, with its place in front.

    The place is a line of the file `where`, or a --set option (`changes`, by key).
    """
    # a check of a whole section already names its key in full
    first = named_key(text)
    names_itself = first.startswith(path.split(".")[0])
    place = _place(first if names_itself else path, where, lines, changes)
    # and the key may be wrong only in combination with others of the section
    beside = [f"--set {typed}" for key, typed in changes.items() if key.startswith(f"{path}.")]
    if beside and place not in beside:
        place = f"{place}, with {' '.join(beside)}"
    return f"{place}: {text}" if names_itself else f"{place}: {path}: {text}"


def naming_owner(path: str, text: str, kind: str | None, recipe: type) -> str:
    """The error of a key; for an unknown one, with the section or kind of model that has it.

    `kind` is that of the recipe's model, and the fields of `recipe` are the sections.
    """
    section, _, key = path.rpartition(".")
    if not text.startswith(f"There is no '{key}' here."):
        return text
    kinds = {spec.kind: _keys(spec) for spec in get_args(Spec)}
    keys = {
        name: _keys(next(filter(is_dataclass, get_args(hint) or (hint,))))
        for name, hint in get_type_hints(recipe).items()
    }
    keys["model"] = kinds.get(kind or "", [])
    owners = [f"{name}.{key}" for name, names in keys.items() if key in names]
    if owners:
        return f"There is no '{key}' here. It is of another section: write {' or '.join(owners)}."
    if section == "model":
        # the spec itself has no size, which stands for other keys
        text = unknown(key, keys["model"])
    others = [f"'{other}'" for other, names in kinds.items() if section == "model" and key in names]
    if not others:
        return text
    return f"{text} Models of kind {', '.join(others)} have it; this one is '{kind}'."


def _keys(made_of: Any) -> list[str]:
    """The keys that a section may have; for a model with named sizes, also `size`."""
    sized = ["size"] if getattr(made_of, "kind", "") in NAMED_SIZES else []
    return [*(one.name for one in fields(made_of)), *sized]


def _place(key: str, where: str, lines: Mapping[str, int], changes: Mapping[str, str]) -> str:
    """The --set option that changed this key or its table; else the line of the file."""
    parts = key.split(".")
    around = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    typed = next((changes[each] for each in around if each in changes), None)
    if typed is not None:
        return f"--set {typed}"
    line = next((lines[each] for each in around if each in lines), None)
    return where if line is None else f"{where}:{line}"
