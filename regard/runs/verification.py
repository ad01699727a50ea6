"""A run and its card → whether the card's numbers come out again.

Files are compared by their hashes. The validation that the card quotes is made again, from the raw
data to the scores, and its numbers may differ by a little: products on another machine are summed
in another order.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import regard
from regard.data import too_long
from regard.errors import RegardError
from regard.hardware.hardware import Hardware, device_kinds
from regard.recipes.data_paths import path_or_unchanged
from regard.runs.evaluation import numbered
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.finished_runs import load_run
from regard.training.card_json import (
    MODEL,
    Quoted,
    QuotedFile,
    QuotedScores,
    code_hash,
    file_hash,
    read_quoted,
)
from regard.training.checkpoints import load_weights
from regard.training.events import Validated
from regard.training.loop import Material
from regard.training.preparation import Prepared
from regard.training.starting_weights import finished_weights
from regard.training.validation import validate
from regard.training.workers import ALONE

ROUNDING = 1e-9


@dataclass(frozen=True)
class Tolerance:
    """How far each number may lie from the card's."""

    loss: float
    exact_match: float
    bleu: float


SAME: Mapping[str, Tolerance] = {
    "float32": Tolerance(loss=1e-4, exact_match=1e-3, bleu=0.05),
    "bfloat16": Tolerance(loss=2e-3, exact_match=5e-3, bleu=0.2),
}
"""On the kind of device, and in the precision, that the card names."""
OTHER = Tolerance(loss=0.02, exact_match=0.01, bleu=0.5)
"""Anywhere else."""


@dataclass(frozen=True)
class Check:
    """One thing that a card quotes, and what was found."""

    what: str
    quoted: str
    found: str
    is_repeated: bool


@dataclass(frozen=True)
class Note:
    """Something to know that is no failure."""

    text: str


def verify(
    run: Path, *, device: str | None = None, precision: str | None = None
) -> Iterator[Check | Note]:
    """Check everything that the card of a run quotes, one by one.

    Args:
        run: a finished run.
        device: where to validate; the card's kind of device if there is one here, unless given.
        precision: of the products; the card's on its kind of device unless given.
    """
    finished_weights(run)
    quoted = read_quoted(run)
    hardware = _hardware(quoted, device, precision)
    yield from _surroundings(quoted)
    for name, mark in quoted.files.items():
        yield _same_file(name, run / name, mark)
    if MODEL not in quoted.files:
        yield Note("the card has no hash of the weights")
    for file in (*quoted.data, *quoted.mean_of):
        yield _same_file(_named(file), path_or_unchanged(Path(file.path), run), file.sha256)
    if quoted.scores is None:
        yield Note("the card quotes no scores")
        return
    with hardware.on_threads():
        yield from _scores(run, quoted, quoted.scores, hardware)


def _hardware(quoted: Quoted, device: str | None, precision: str | None) -> Hardware:
    """As the card says, where that is possible and nobody wishes otherwise."""
    theirs = quoted.made_with.get("device", "cpu")
    if device is None and theirs in device_kinds():
        device = theirs
    is_theirs = device is not None and device.partition(":")[0] == theirs
    if precision is None and is_theirs:
        precision = quoted.made_with.get("precision")
    return Hardware.chosen(device, precision, compiles=False)


def _surroundings(quoted: Quoted) -> Iterator[Note]:
    now = {"regard": regard.__version__, "code": code_hash(), "torch": torch.__version__}
    said = {"code": "the code of regard"}
    for name, found in now.items():
        if quoted.made_with.get(name, found) != found:
            yield Note(f"{said.get(name, name)} is not the one that the card was written by")


def _named(file: QuotedFile) -> str:
    return f"{file.split}: {file.path}" if file.split else file.path


def _same_file(what: str, path: Path, quoted: str | None) -> Check:
    found = file_hash(path)
    return Check(
        what,
        _short(quoted, "unreadable"),
        _short(found, "missing"),
        found == quoted and found is not None,
    )


def _short(mark: str | None, otherwise: str) -> str:
    return otherwise if mark is None else f"SHA-256 {mark[:12]}…"


def _scores(
    run: Path, quoted: Quoted, scores: QuotedScores, hardware: Hardware
) -> Iterator[Check | Note]:
    made = (quoted.made_with.get("device"), quoted.made_with.get("precision"))
    here = (hardware.device.type, str(hardware.precision).removeprefix("torch."))
    if made != here:
        yield Note(
            f"validated on {here[0]} in {here[1]}, but the card's numbers are from {made[0]} in "
            f"{made[1]}: more may differ"
        )
    if scores.weights != MODEL:
        yield Note(f"the card's scores are of '{scores.weights}', and not of the final weights")
    try:
        found = _validated(run, scores, hardware)
    except RegardError as error:
        # a file that is gone or spoilt is just what somebody wants to find out here
        said = f"cannot be computed: {error}"
        yield Check("scores", f"loss {scores.loss:.4f}", said, is_repeated=False)
        return
    limits = SAME[here[1]] if made == here else OTHER
    for measure in MEASURES:
        if (check := measure.check(scores, found, limits)) is not None:
            yield check


@dataclass(frozen=True)
class Measure:
    """A number of a validation."""

    name: str
    quoted: Callable[[QuotedScores], float | None]
    found: Callable[[Validated], float | None]
    limit: Callable[[Tolerance], float]
    digits: int

    def check(self, scores: QuotedScores, validated: Validated, limits: Tolerance) -> Check | None:
        """Compare; None if the card does not quote it."""
        quoted, found, limit = self.quoted(scores), self.found(validated), self.limit(limits)
        if quoted is None or found is None:
            return None
        form = f".{self.digits}f"
        return Check(
            self.name,
            f"{quoted:{form}}",
            f"{found:{form}} (may differ by {limit:g})",
            abs(quoted - found) <= limit + ROUNDING,
        )


MEASURES = (
    Measure("loss", lambda q: q.loss, lambda v: v.loss, lambda t: t.loss, 4),
    Measure(
        "exact match", lambda q: q.exact_match, lambda v: v.exact_match, lambda t: t.exact_match, 4
    ),
    Measure("BLEU", lambda q: q.bleu, lambda v: v.bleu, lambda t: t.bleu, 2),
)


def _validated(run: Path, scores: QuotedScores, hardware: Hardware) -> Validated:
    """The validation again, from the raw data."""
    loaded = load_run(run)
    if scores.weights != MODEL:
        load_weights(run / scores.weights, loaded.model)
    recipe, limit = loaded.recipe, loaded.recipe.data.max_tokens
    model = hardware.place(loaded.model)
    with numbered(texts_of_split(recipe, "valid", run), loaded, hardware) as corpus:
        long = too_long(corpus, max_source=limit, max_target=limit)
        valid = Material(corpus, np.setdiff1d(np.arange(len(corpus)), long))
        prepared = Prepared(
            recipe=recipe,
            folder=run,
            workers=ALONE,
            source=loaded.source,
            target=loaded.target,
            # nothing is learned here
            train=valid,
            valid=valid,
            left_out={},
        )
        return validate(model, prepared, hardware, scores.step)
