"""regard import: published weights → a run directory."""

import json
import sys
from pathlib import Path

import typer

from regard.interop.importing import FAMILIES, import_run

HELP = f"A folder with config.json and model.safetensors ({', '.join(FAMILIES)})."


def import_(
    folder: Path = typer.Argument(help=HELP),
    out: Path = typer.Option(..., "--out", help="A new run directory."),
    as_json: bool = typer.Option(False, "--json", help="Say what was read as one JSON object."),
) -> None:
    """Make a run of a published model, on which predict, look and evaluate work.

    The folder is in Hugging Face's layout: config.json, model.safetensors and a vocabulary
    (tokenizer.json, or vocab.txt, vocab.json with merges.txt, or Marian's .spm files). Nothing in
    it is run, and a pickle is never opened. A tensor that is missing, left over or of another shape
    is an error that names it.

    Example: regard import opus-mt-de-en --out runs/opus-mt-de-en
    """
    imported = import_run(folder, out)
    spec = imported.recipe.model
    count = sum(tensor.numel() for tensor in imported.weights.values())
    if as_json:
        report = {
            "run": str(out),
            "kind": spec.kind,
            "parameters": count,
            "source_pieces": len(imported.source),
            "target_pieces": len(imported.target),
            "notes": imported.notes,
        }
        print(json.dumps(report, ensure_ascii=False))
        return
    for note in imported.notes:
        print(note, file=sys.stderr)
    print(f"{out}: {spec.kind}, {count:,} parameters, {len(imported.target):,} pieces")
