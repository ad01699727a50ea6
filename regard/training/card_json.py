"""Card JSON: the part of a card that programs can check, with hashes, scores and environment.

A card is Markdown for people; its last part is one block of JSON with the same facts in full.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

import regard
from regard.data.files import Unreadable, check_is_regular, parse_json, read_text
from regard.errors import RunError
from regard.recipes.sections import read_fields

MODEL = "model.safetensors"
VERSION = 1
"""The version of the block; a card with another one is refused."""
HEADING = "## To check it"
BLOCK = re.compile(r"^```json\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class QuotedFile:
    """A file and its hash; None if it could not be read."""

    split: str
    """The data that it belongs to; empty if to none."""
    path: str
    sha256: str | None


@dataclass(frozen=True)
class QuotedScores:
    """One validation, in full."""

    weights: str
    """The file, inside the run, whose weights were validated."""
    step: int
    loss: float
    exact_match: float | None
    bleu: float | None = None
    bleu_signature: str | None = None
    decoded_examples: int | None = None
    """How many validation examples were decoded, where the recipe does not say it."""

    @classmethod
    def of(cls, row: Mapping[str, Any], weights: str) -> "QuotedScores":
        """The scores in a row of `metrics.jsonl`."""
        names = ("exact_match", "bleu", "bleu_signature", "decoded_examples")
        decoded = (row.get(name) for name in names)
        return cls(weights, int(row["step"]), float(row["valid_loss"]), *decoded)


@dataclass(frozen=True)
class Quoted:
    """The facts of a card that can be checked; no scores if the run was not validated."""

    data: tuple[QuotedFile, ...]
    files: Mapping[str, str | None]
    """The run's own files, with their hashes."""
    scores: QuotedScores | None
    made_with: Mapping[str, str]
    mean_of: tuple[QuotedFile, ...] = ()
    """The files whose mean the weights are, if the run is only a mean."""


def quoted_text(quoted: Quoted) -> str:
    """The last part of a card."""
    block = json.dumps({"version": VERSION, **asdict(quoted)}, indent=1, ensure_ascii=False)
    return f"{HEADING}\n\n`regard verify` reads this.\n\n```json\n{block}\n```"


def read_quoted(run: Path) -> Quoted:
    """The last part of a run's card."""
    path = run / "card.md"
    if not path.exists():
        raise RunError(f"verify: '{run}' has no card.md, so that there is nothing to check.")
    try:
        blocks = BLOCK.findall(read_text(path))
        if not blocks:
            raise RunError(
                f"verify: '{path}' has no block of JSON to check; it was written by another "
                "version. Train the run again, by the command on the card."
            )
        return _parsed(blocks[-1])
    except Unreadable as error:
        raise RunError(
            f"verify: '{path}' {error}. Put back the card that regard train wrote, or train the "
            "run again."
        ) from error


def _parsed(block: str) -> Quoted:
    try:
        fields = parse_json(block)
    except Unreadable as error:
        raise Unreadable(f"ends with a block that cannot be read: it {error}") from error
    version = fields.pop("version", None) if isinstance(fields, dict) else None
    if version != VERSION:
        raise Unreadable(f"must hold JSON of version {VERSION}, got {repr(version)[:40]}")
    return read_fields(Quoted, fields)


def recorded_data(run: Path) -> tuple[QuotedFile, ...]:
    """The files of data that the card of a run quotes; none if it has no readable card."""
    try:
        return read_quoted(run).data
    except RunError:
        return ()


def file_hash(path: Path) -> str | None:
    """The SHA-256 of a file, or of the names and sizes in a folder; None if it cannot be read."""
    try:
        if path.is_dir():
            # the bytes of a folder of many pictures would take long to read
            inside = (each for each in path.rglob("*") if each.is_file())
            facts = sorted((p.relative_to(path).as_posix(), p.stat().st_size) for p in inside)
            return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()
        check_is_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, Unreadable):
        return None


def weights_hash(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of the file that these weights will be written to."""
    return hashlib.sha256(save(dict(weights))).hexdigest()


def code_hash() -> str:
    """One number for all files of the package."""
    mark, root = hashlib.sha256(), Path(regard.__file__).parent
    for path in sorted(root.rglob("*.py")):
        mark.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return mark.hexdigest()
