"""A recipe's table before it is read: what was typed behind --set, and sizes by their names."""

import tomllib
from collections.abc import Mapping
from typing import Any

from regard.choices import Choice, unknown
from regard.errors import RecipeError
from regard.models import NAMED, TransformerSpec
from regard.training.sections import Mistakes


def change_table(table: dict[str, Any], change: str) -> None:
    """Put `section.key=value` into the table, over what is there."""
    path, equals, text = change.partition("=")
    if not equals:
        raise RecipeError(f"--set takes section.key=value, got '{change}'.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, key = path.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise RecipeError(f"--set {change}: '{section}' is no section.")
    table[key] = value


def with_size(table: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """`model.size` stands for a row of the table of sizes; keys beside it win."""
    model = table.get("model")
    if not isinstance(model, dict) or "size" not in model:
        return dict(table)
    given = {key: value for key, value in model.items() if key != "size"}
    # a list or a table is no name, and its text none that is known
    kind, size = str(model.get("kind", TransformerSpec.kind)), str(model["size"])
    sizes = NAMED.get(kind, {})
    if not sizes:
        mistakes.add("model.size", f"has no meaning for kind = '{kind}'; give its own keys.")
    elif size not in sizes:
        mistakes.add("model.size", unknown(size, sizes))
    named = {
        key: value.name if isinstance(value, Choice) else value
        for key, value in sizes.get(size, {}).items()
    }
    return {**table, "model": {**named, **given}}
