"""regard import: published weights → a run directory."""

import json
import sys
from pathlib import Path

import typer

from regard.interop.importing import FAMILIES, folder_named, import_run
from regard.interop.importing.family import Languages

HELP = f"A folder, or a model's name on the hub: owner/name ({', '.join(FAMILIES)})."


def import_(
    folder: str = typer.Argument(help=HELP),
    out: Path = typer.Option(..., "--out", help="A new run directory."),
    source_language: str | None = typer.Option(
        None, help="The language of its texts, for a model of many (mbart, m2m_100): de, deu_Latn."
    ),
    target_language: str | None = typer.Option(
        None, help="The language that it translates to, for a model of many."
    ),
    as_json: bool = typer.Option(False, "--json", help="Say what was read as one JSON object."),
) -> None:
    """Make a run of a published model, on which predict, look and evaluate work.

    The folder is in Hugging Face's layout: config.json, model.safetensors and a vocabulary
    (tokenizer.json, or vocab.txt, vocab.json with merges.txt, or .spm files). A name on the hub is
    looked for in the hub's cache (HF_HOME), and fetched if it is not there. Nothing in a folder is
    run, and a pickle is never opened. A tensor that is missing, left over or of another shape is an
    error that names it.

    Example: regard import opus-mt-de-en --out runs/opus-mt-de-en
    """
    languages = Languages(source_language, target_language)
    imported = import_run(folder_named(folder, "import"), out, languages)
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
