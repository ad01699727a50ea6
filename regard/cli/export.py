"""regard export: a finished run → a folder that another library reads."""

import json
import sys
from pathlib import Path

import typer

from regard.choices import find
from regard.interop.exporting import TARGETS


def export(
    run: Path = typer.Argument(help="A finished run."),
    to: str = typer.Option(..., "--to", help=f"For whom: {', '.join(TARGETS)}."),
    out: Path = typer.Option(..., "--out", help="A new folder."),
    quantization: str | None = typer.Option(
        None, help="For ctranslate2: float32 (unless given), float16 or int8."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write a run in another library's layout.

    ctranslate2: Transformers and language models, which CTranslate2 opens as they are; the folder
    answers the run's own examples before it is done.

    huggingface: a folder that transformers reads, and CTranslate2's own converter
    (ct2-transformers-converter): Marian (post-norm) or Pegasus (pre-norm) for models that read a
    source, GPT-2 for language models, BERT for encoders. Probabilities stay the same.

    onnx: two graphs, of the encoder and of a step of the decoder with its past, for Transformers
    that read a source, whatever their links.

    What a layout cannot hold is refused with the reason, and what to take instead.

    Example: regard export runs/multi30k --to ctranslate2 --out exported
    """
    done = find(to, TARGETS, key="export: --to")(run, out, quantization)
    for note in () if as_json else done.notes:
        print(note, file=sys.stderr)
    report = json.dumps(
        {"out": str(out), "files": list(done.files), "notes": list(done.notes)}, ensure_ascii=False
    )
    print(report if as_json else f"{out}: {', '.join(done.files)}")
