"""regard list: every mechanism with its kind, paper, equation and cost."""

import json

import typer

from regard.catalogue import TABLES, Mechanism, mechanisms
from regard.choices import find


def list_(
    kind: str | None = typer.Option(None, help="Only this kind, for instance score or pattern."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
) -> None:
    """List every mechanism.

    Example: regard list --kind selection
    """
    kinds = TABLES if kind is None else {kind: find(kind, TABLES, key="list: --kind")}
    entries = [entry for entry in mechanisms() if entry.kind in kinds]
    if as_json:
        print(json.dumps([_as_data(entry) for entry in entries], ensure_ascii=False))
        return
    for name in kinds:
        print(name)
        for entry in entries:
            if entry.kind == name:
                print(f"  {entry.name:<19} {entry.one_line}")
                print(f"{'':<22}{entry.paper}\n{'':<22}{entry.cost}")
        print()
    print("regard explain NAME says more.")


def _as_data(entry: Mechanism) -> dict[str, object]:
    fields = ("kind", "name", "summary", "paper", "cost", "settings", "file")
    return {**{name: getattr(entry, name) for name in fields}, "equation": entry.one_line}
