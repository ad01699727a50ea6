"""regard list: every mechanism with its kind, paper, equation and cost."""

import json

import typer

from regard.choices import find
from regard.inspecting import KINDS, Mechanism, mechanisms


def list_mechanisms(
    kind: str | None = typer.Option(None, help="Only this kind, for instance score or pattern."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
) -> None:
    """List every mechanism.

    Example: regard list --kind selection
    """
    kinds = KINDS if kind is None else {kind: find(kind, KINDS)}
    entries = [entry for entry in mechanisms() if entry.kind in kinds]
    if as_json:
        fields = ("kind", "name", "summary", "equation", "paper", "cost", "settings", "file")
        print(json.dumps([{f: getattr(e, f) for f in fields} for e in entries], ensure_ascii=False))
        return
    for name in kinds:
        print(f"{name}")
        for entry in entries:
            if entry.kind == name:
                print(_entry(entry))
        print()
    print("regard explain NAME says more.")


def _entry(entry: Mechanism) -> str:
    first, *more = entry.equation.splitlines()
    notes = [*more, entry.paper, entry.cost]
    return "\n".join([f"  {entry.name:<17} {first}", *(f"{'':<20}{note}" for note in notes)])
