"""Where a mistake of a recipe was made: on a line of its file, or behind --set."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import get_args

from regard.models import Spec
from regard.training.lines import line_of

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
    first = text.split()[0].rstrip(":")
    names_itself = path.split(".")[0] in first
    place = _place(first if names_itself else path, where, lines, changes)
    # and the key may be wrong only together with others of the section
    beside = [f"--set {typed}" for key, typed in changes.items() if key.startswith(f"{path}.")]
    if beside and place not in beside:
        place = f"{place}, with {' '.join(beside)}"
    return f"{place}: {text}" if names_itself else f"{place}: {path}: {text}"


def of_other_kinds(path: str, kind: str | None) -> str:
    """A sentence on which other kinds of model have a key that this kind has not; else nothing."""
    section, _, key = path.partition(".")
    keys = {spec.kind: {one.name for one in fields(spec)} for spec in get_args(Spec)}
    if section != "model" or kind not in keys or key in keys[kind]:
        return ""
    others = [f"'{other}'" for other, names in keys.items() if key in names]
    return f" Models of kind {', '.join(others)} have it; this one is '{kind}'." if others else ""


def _place(key: str, where: str, lines: dict[str, int], changes: Mapping[str, str]) -> str:
    """What was typed, if it is about this key or what the key is in; else the line of the file."""
    around = key
    while around:
        if around in changes:
            return f"--set {changes[around]}"
        around = around.rpartition(".")[0]
    line = line_of(key, lines)
    return where if line is None else f"{where}:{line}"
