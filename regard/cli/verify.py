"""regard verify: a run's card, checked against its files, its data and its scores."""

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from regard.cli.options import check_device
from regard.runs.verification import Check, Note
from regard.runs.verification import verify as verified

MARKS = {True: "same", False: "DIFFERS"}


def verify(
    run: Path = typer.Argument(help="A finished run with its card.md."),
    device: str | None = typer.Option(
        None, help="cpu or cuda; as the card says where possible.", callback=check_device
    ),
    precision: str | None = typer.Option(None, help="float32 or bfloat16; as the card says."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check a run's card: the hashes of its files and data, and its scores, computed again.

    The validation data is read, decoded and scored anew, from any folder: the run knows where its
    data were. Exit 0 if everything is repeated, 1 if something is not.

    Example: regard verify runs/copy
    """
    console = Console(stderr=True)
    checks: list[Check] = []
    notes: list[Note] = []
    with console.status("verifying") if console.is_terminal else nullcontext():
        for found in verified(run, device=device, precision=precision):
            if isinstance(found, Check):
                checks.append(found)
            else:
                notes.append(found)
            if not as_json:
                print(_text(found))
    is_repeated = all(check.is_repeated for check in checks)
    if as_json:
        said = {
            "run": str(run),
            "is_repeated": is_repeated,
            "checks": [asdict(check) for check in checks],
            "notes": [note.text for note in notes],
        }
        print(json.dumps(said, ensure_ascii=False))
    else:
        failed = sum(not check.is_repeated for check in checks)
        print(
            f"{run}: repeated"
            if is_repeated
            else f"{run}: NOT repeated ({failed} of {len(checks)} checks differ)"
        )
    if not is_repeated:
        raise typer.Exit(1)


def _text(found: Check | Note) -> str:
    if isinstance(found, Note):
        return f"{'note':<8} {found.text}"
    return f"{MARKS[found.is_repeated]:<8} {found.what}: card {found.quoted}, here {found.found}"
