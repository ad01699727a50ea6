"""regard verify: a run's card, checked against its files, its data and its scores."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from regard.cli.options import IMPORTS, ThreadCount, check_device
from regard.progress import waiting
from regard.runs.verification import Check
from regard.runs.verification import verify as verified


def verify(
    run: Path = typer.Argument(help="A finished run with its card.md."),
    imports: list[Path] = IMPORTS,
    device: str | None = typer.Option(
        None, help="cpu or cuda; as the card says where possible.", callback=check_device
    ),
    precision: str | None = typer.Option(None, help="float32 or bfloat16; as the card says."),
    threads: ThreadCount = None,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check a run's card: the hashes of its files and data, and its scores, computed again.

    The validation data is read, decoded and scored anew, from any folder: the run knows where its
    data were. Exit 0 if everything is repeated, 1 if something is not.

    Example: regard verify runs/copy
    """
    checks: list[Check] = []
    notes: list[str] = []
    with waiting("verifying"):
        for found in verified(run, device=device, precision=precision, threads=threads):
            if isinstance(found, Check):
                checks.append(found)
            else:
                notes.append(found)
            if not as_json:
                print(_text(found))
    failed = sum(not check.is_repeated for check in checks)
    if as_json:
        report = {
            "run": str(run),
            "is_repeated": not failed,
            "checks": [asdict(check) for check in checks],
            "notes": notes,
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        differ = f"NOT repeated ({failed} of {len(checks)} checks differ)"
        print(f"{run}: {differ if failed else 'repeated'}")
    if failed:
        raise typer.Exit(1)


def _text(found: Check | str) -> str:
    if isinstance(found, str):
        return f"{'note':<8} {found}"
    mark = "same" if found.is_repeated else "DIFFERS"
    return f"{mark:<8} {found.what}: card {found.quoted}, here {found.found}"
