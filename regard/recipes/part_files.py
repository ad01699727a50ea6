"""Part files: which parts of a recipe are not of this package, kept beside a run's recipe.

    parts.json   [{"name": "distance", "class": "DistanceScore", "source": "my_parts.py",
                   "sha256": "…"}]

The file names them and never holds their code: a run is data. Loading a run checks that they are
there, and says what to import where they are not.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.attention.given_links import KINDS
from regard.attention.link_tables import LOG
from regard.data.atomic_writes import write_text
from regard.data.files import Unreadable, read_json
from regard.errors import CheckpointError, RunError
from regard.recipes.recipe import Recipe

FILE = "parts.json"


def record_parts(run: Path, recipe: Recipe) -> None:
    """Write which parts of a recipe were added to the tables, if there is one."""
    used = set(_names(recipe.as_table().get("model", {})))
    rows = [
        {
            "name": name,
            "class": kind.table[name].__name__,
            "source": origin.source,
            "sha256": origin.sha256,
        }
        for kind in KINDS.values()
        for name, origin in kind.table.origins.items()
        if name in used
    ]
    if rows:
        write_text(run / FILE, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def check_parts(run: Path) -> None:
    """Refuse a run whose parts are not loaded, and tell where they are not those it learned with.

    Nothing is loaded here but what an installed package offers under the name.
    """
    for row in _rows(run):
        name, source = row["name"], row["source"]
        table = next((kind.table for kind in KINDS.values() if name in kind.table), None)
        if table is None:
            what = f"--import {source}" if source.endswith(".py") else f"pip install '{source}'"
            raise RunError(
                f"'{run}' was trained with the part '{name}', which is {row['class']} of "
                f"{source} (SHA-256 {row['sha256'][:12]}…) and is not loaded. Add {what}; in "
                "Python, call regard.import_parts(file) first."
            )
        origin = table.origins.get(name)
        if origin is None or origin.sha256 != row["sha256"]:
            LOG.warning(
                "parts: '%s' is not what '%s' was trained with: SHA-256 %s… then, %s… now",
                name, run, row["sha256"][:12], "none" if origin is None else origin.sha256[:12],
            )  # fmt: skip


def _rows(run: Path) -> list[dict[str, str]]:
    path = run / FILE
    if not path.exists():
        return []
    try:
        rows = read_json(path)
    except Unreadable as error:
        raise CheckpointError(f"'{path}' {error}. Put back a whole copy of it.") from error
    keys = ("name", "class", "source", "sha256")
    is_whole = isinstance(rows, list) and all(
        isinstance(row, dict) and all(isinstance(row.get(key), str) for key in keys) for row in rows
    )
    if not is_whole:
        raise CheckpointError(
            f"'{path}' must hold a list of parts, each with {', '.join(keys)}. Put back a whole "
            "copy of it."
        )
    return list(rows)


def _names(value: Any) -> Iterator[str]:
    """Every text of a recipe's section that may name a part."""
    if isinstance(value, str):
        yield value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inside:
        yield from _names(one)
