"""regard recipe: the shipped recipes, and the text of one."""

import json
import shutil
from textwrap import fill

import typer

from regard.cli.options import refuse
from regard.recipes.keys import json_schema
from regard.recipes.shipped import shipped_recipe, shipped_recipes, summary_of


def recipe(
    name: str | None = typer.Argument(None, help="A shipped recipe; all are listed unless given."),
    has_schema: bool = typer.Option(
        False, "--schema", help="Print a JSON Schema of recipes, for editors that know TOML."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array, or one object."),
) -> None:
    """List the shipped recipes, or print one to change.

    Example: regard recipe copy > mine.toml
    """
    if has_schema:
        refuse("recipe", "--schema is of all recipes", {"NAME": name, "--json": as_json})
        print(json.dumps(json_schema(), indent=1, ensure_ascii=False))
        return
    if name is None:
        found = {each: summary_of(path) for each, path in shipped_recipes().items()}
        if as_json:
            rows = [{"name": each, "summary": text} for each, text in found.items()]
            print(json.dumps(rows, ensure_ascii=False))
        else:
            _print_all(found)
        return
    path = shipped_recipe(name.removesuffix(".toml"))
    text = path.read_text(encoding="utf-8")
    if as_json:
        data = {"name": path.stem, "summary": summary_of(path), "text": text}
        print(json.dumps(data, ensure_ascii=False))
    else:
        print(text, end="")


def _print_all(found: dict[str, str]) -> None:
    width = max(map(len, found)) + 2
    columns = max(width + 40, shutil.get_terminal_size().columns)
    for name, text in found.items():
        print(fill(f"{name:<{width}}{text}", columns, subsequent_indent=" " * width))
    print("\nregard recipe NAME prints one; regard train NAME --out RUN trains by it.")
