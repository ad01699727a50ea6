"""regard export: a finished run → a folder that another library reads."""

import json
from pathlib import Path

import typer

from regard.choices import find
from regard.interop.exporting import TARGETS


def export(
    run: Path = typer.Argument(help="A finished run."),
    to: str = typer.Option(..., "--to", help=f"For whom: {', '.join(TARGETS)}."),
    out: Path = typer.Option(..., "--out", help="A new folder."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write a translation run in another library's layout.

    huggingface: a Marian folder, which transformers reads (MarianMTModel.from_pretrained), and
    CTranslate2's converter (ct2-transformers-converter). Runs of kind marian, and of kind
    transformer where the layout can hold them: post-norm, sinusoidal positions, scaled dot
    products, soft selection, tied = "all". Probabilities stay the same.

    Example: regard export runs/multi30k --to huggingface --out exported
    """
    written = find(to, TARGETS, key="export: --to")(run, out)
    report = json.dumps({"out": str(out), "files": list(written)})
    print(report if as_json else f"{out}: {', '.join(written)}")
