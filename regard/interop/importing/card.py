"""card.md of an imported run: what it was made from, and what was left out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

import regard
from regard.data.atomic_writes import PARTIAL, write_text
from regard.training.card_json import (
    MODEL,
    Quoted,
    QuotedFile,
    code_hash,
    file_hash,
    quoted_text,
    weights_hash,
)


def write_imported_card(
    run: Path, folder: Path, notes: Sequence[str], weights: Mapping[str, Tensor]
) -> Path:
    """The card of a run; all its files but the weights are there.

    Args:
        run: its directory.
        folder: what was imported.
        notes: what a reader should know.
        weights: what will be written to model.safetensors.
    """
    files = tuple(
        QuotedFile("published", str(path), file_hash(path))
        for path in sorted(folder.iterdir())
        if path.is_file()
    )
    own = {path.name: file_hash(path) for path in sorted(run.iterdir()) if path.suffix != PARTIAL}
    own[MODEL] = weights_hash(weights)
    quoted = Quoted(files, own, None, {"regard": regard.__version__, "code": code_hash()})
    lines = "\n".join(f"| {Path(file.path).name} | SHA-256 {file.sha256} |" for file in files)
    parts = [
        f"# {run.name}",
        f"Imported from `{folder.resolve().name}`; the model learned elsewhere, and nothing was "
        "trained here.",
        "\n".join(f"* {note}" for note in notes),
        f"## Imported from\n\n| | |\n|---|---|\n{lines}",
        quoted_text(quoted),
    ]
    path = run / "card.md"
    write_text(path, "\n\n".join(part for part in parts if part) + "\n")
    return path
