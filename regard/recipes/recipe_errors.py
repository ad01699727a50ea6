"""Where a mistake of a recipe was made: on a line of its file, or behind --set."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from regard.choices import unknown
from regard.models import NAMED, Spec
from regard.recipes.sections import named_key
from regard.recipes.toml_tables import line_of

NO_CHANGES: Mapping[str, str] = MappingProxyType({})


def told(
    path: str, text: str, where: str, lines: dict[str, int], changes: Mapping[str, str]
) -> str:
    """One mistake, with its place before it.

    Args:
        path: the key, or the section, that is wrong.
        text: what is wrong with it.
        where: the name of the file.
        lines: the line of each key of the file.
        changes: what was typed behind --set, by the key that it changed.
    """
    # a check of a whole section already names its key in full
    first = named_key(text)
    names_itself = first.startswith(path.split(".")[0])
    place = _place(first if names_itself else path, where, lines, changes)
    # and the key may be wrong only together with others of the section
    beside = [f"--set {typed}" for key, typed in changes.items() if key.startswith(f"{path}.")]
    if beside and place not in beside:
        place = f"{place}, with {' '.join(beside)}"
    return f"{place}: {text}" if names_itself else f"{place}: {path}: {text}"


def naming_owner(path: str, text: str, kind: str | None, recipe: type) -> str:
    """What is wrong, and who has a key that is unknown where it stands, if anybody has it.

    Args:
        path: the key.
        text: what is wrong with it.
        kind: of the recipe's model.
        recipe: the class whose fields are the sections.
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
    """What a section may say; for a model that has named sizes, a size too."""
    sized = ["size"] if getattr(made_of, "kind", "") in NAMED else []
    return [*(one.name for one in fields(made_of)), *sized]


def _place(key: str, where: str, lines: dict[str, int], changes: Mapping[str, str]) -> str:
    """What was typed, if it is about this key or what the key is in; else the line of the file."""
    around = key
    while around:
        if around in changes:
            return f"--set {changes[around]}"
        around = around.rpartition(".")[0]
    line = line_of(key, lines)
    return where if line is None else f"{where}:{line}"
