"""A recipe's table before it is read: its file, the lines of its keys, what --set changed, sizes.

`tomllib` does not give the line of a key, so that a small scanner here finds it.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.choices import Choice, toml_value, unknown
from regard.data.files import CONVERT, Unreadable, is_text, is_utf16, names_like, read_bytes
from regard.errors import RecipeError, SettingError
from regard.models import KINDS, NAMED_SIZES, TransformerSpec
from regard.recipes.sections import Mistakes
from regard.recipes.shipped import shipped_recipes

TOML_REMEDY = (
    'A section is written [data], a key size = 8000, a text in quotation marks: name = "tsv". '
    "Each key stands once."
)
"""What to do about a recipe that is no TOML."""
MAX_NESTING = 32
"""How many tables and lists may stand inside one another."""
MAX_INTEGER_BITS = 1000
"""The most digits of an integer, so that every one can be printed and converted to float."""
_DIGITS = re.compile(r"[\d_]{4000,}")
"""More digits than Python converts to an integer."""


def read_table(path: Path) -> tuple[dict[str, Any], str]:
    """The table of a recipe file, and its text."""
    if path.is_dir():
        raise RecipeError(f"recipe: '{path}' is a folder; give the recipe, a file like run.toml.")
    if not os.path.lexists(path):
        raise RecipeError(f"recipe: there is no file '{path}'. {_alternative(path)}")
    try:
        content = read_bytes(path)
    except Unreadable as error:
        raise RecipeError(f"recipe: '{path}' {error}.") from error
    if is_utf16(content):
        raise RecipeError(f"{path}: this is UTF-16. {CONVERT.format('utf-16')}")
    text = content.decode("utf-8-sig", errors="replace")
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        data = f" For a recipe of data: regard new {path}." if path.suffix != ".toml" else ""
        raise RecipeError(f"{path}: this is not TOML: {error}. {TOML_REMEDY}{data}") from error
    except ValueError as error:
        lines = text.splitlines()
        line = next((n for n, each in enumerate(lines, 1) if _DIGITS.search(each)), len(lines))
        raise RecipeError(f"{path}:{line}: a number has too many digits.") from error
    except RecursionError as error:
        line = _deepest_line(text)
        raise RecipeError(f"{path}:{line}: tables or lists are nested too deeply.") from error


def _alternative(path: Path) -> str:
    """What may have been meant by the path of a missing recipe."""
    shipped = shipped_recipes()
    if path.stem in shipped:
        return f"'{path.stem}' is shipped: give its name alone."
    near = difflib.get_close_matches(path.stem, shipped, n=3)
    named = f" Shipped recipes: {', '.join(near)}." if near else ""
    return f"{names_like(path)}{named} 'regard recipe' lists the shipped ones."


def _deepest_line(text: str) -> int:
    """The line on which most brackets are open."""
    line, depth, found = 1, 0, (0, 1)
    for character in text:
        line += character == "\n"
        depth += (character in "[{") - (character in "]}")
        found = max(found, (depth, line), key=lambda one: one[0])
    return found[1]


def check_extent(table: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Refuse whole numbers that no setting can have, and tables too deep to be one's settings."""
    for path, value, depth in _values(table):
        if type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
            mistakes.add(
                path, f"must be below 2^{MAX_INTEGER_BITS}; it has {value.bit_length():,} bits."
            )
        if depth > MAX_NESTING:
            mistakes.add(path, f"is nested too deeply: at most {MAX_NESTING} tables or lists.")


def _values(table: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Every value with its key and its depth; nothing below the deepest."""
    waiting: list[tuple[str, Any, int]] = [("", table, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        yield path, value, depth
        if depth > MAX_NESTING:
            continue
        if isinstance(value, Mapping):
            inner = {f"{path}.{key}" if path else key: each for key, each in value.items()}
            waiting += [(name, each, depth + 1) for name, each in inner.items()]
        elif isinstance(value, list):
            waiting += [(path, each, depth + 1) for each in value]


def change_table(table: dict[str, Any], change: str) -> None:
    """Put `section.key=value` into the table, replacing an existing value."""
    path, equals, text = change.partition("=")
    if not equals:
        raise RecipeError(f"--set takes section.key=value, got '{change}'.")
    if not is_text(change):
        raise RecipeError(f"--set {change!a}: this is not UTF-8, in which recipes are written.")
    try:
        value = toml_value(text)
    except SettingError as error:
        raise RecipeError(f"--set {path.strip()}: {error}") from error
    *sections, key = path.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise RecipeError(
                f"--set {change}: '{section}' is a key with a value, not a section. Leave out what "
                "follows its name, or give section.key=value."
            )
    table[key] = value


def with_size(table: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """Replace `model.size` by its row of the table of sizes; keys of the recipe win."""
    model = table.get("model")
    if not isinstance(model, dict) or "size" not in model:
        return dict(table)
    given = {key: value for key, value in model.items() if key != "size"}
    # a list or a table is no name, and its text is in no table of sizes
    kind, size = str(model.get("kind", TransformerSpec.kind)), str(model["size"])
    sizes = NAMED_SIZES.get(kind, {})
    if not sizes and kind in KINDS:
        mistakes.add("model.size", f"has no meaning for kind = '{kind}'; give its own keys.")
    elif sizes and size not in sizes:
        mistakes.add("model.size", unknown(size, sizes))
    named = {
        key: value.name if isinstance(value, Choice) else value
        for key, value in sizes.get(size, {}).items()
    }
    return {**table, "model": {**named, **given}}


_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""^\s*([A-Za-z0-9_\-."']+)\s*=""")


def key_lines(text: str) -> dict[str, int]:
    r"""The line number of every key, by its full dotted name; inline tables count as one line.

    >>> key_lines("[training]\nsteps = 3\n")
    {'training': 1, 'training.steps': 2}
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _plain(header[1])
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            name = _plain(key[1])
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
