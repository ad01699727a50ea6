"""Checks that a run reproduces the numbers of its card.

Files are compared by their hashes. The validation of the card is repeated from the raw
data; its numbers may differ by a little, since other machines sum products in another order.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

import regard
from regard.data import Corpus
from regard.errors import RegardError
from regard.hardware.devices import device_kinds
from regard.hardware.hardware import Hardware
from regard.recipes.data_paths import data_files, path_or_unchanged
from regard.recipes.recipe import read_recipe
from regard.runs.evaluation import numbered
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.trained import load_run
from regard.tasks import task_of
from regard.tasks.loaded_run import Loaded
from regard.tasks.sources import Split
from regard.training.card_json import MODEL, Quoted, QuotedScores, code_hash, file_hash, read_quoted
from regard.training.checkpoints import load_weights
from regard.training.events import Validated
from regard.training.loop import Material
from regard.training.preparation import Prepared
from regard.training.run_folder import finished_weights
from regard.training.validation import validate
from regard.training.workers import SINGLE_PROCESS

ROUNDING = 1e-9
SAME_DEVICE_LIMITS: Mapping[str, Mapping[str, float]] = {
    "float32": {"loss": 1e-4, "exact_match": 1e-3, "bleu": 0.05},
    "bfloat16": {"loss": 2e-3, "exact_match": 5e-3, "bleu": 0.2},
    "float16": {"loss": 2e-3, "exact_match": 5e-3, "bleu": 0.2},
}
"""How far each number may lie from the card's on its kind of device, by its precision."""
OTHER_DEVICE_LIMITS: Mapping[str, float] = {"loss": 0.02, "exact_match": 0.01, "bleu": 0.5}
PRINTED = {"loss": ("loss", 4), "exact_match": ("exact match", 4), "bleu": ("BLEU", 2)}
"""The printed name of each number, and its decimal places."""


@dataclass(frozen=True)
class Check:
    """One item of a card, and the value that was found."""

    what: str
    quoted: str
    found: str
    is_repeated: bool


def verify(
    run: Path,
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
) -> Iterator[Check | str]:
    """Yield the checks of all items of a run's card; a string is a remark, not a failure.

    Without a device the card's kind of device is taken if there is one here, with its precision.
    """
    finished_weights(run)
    quoted = read_quoted(run)
    hardware = _hardware(quoted, device, precision, threads)
    yield from _surroundings(quoted)
    for name, mark in quoted.files.items():
        yield _same_file(name, run / name, mark)
    if MODEL not in quoted.files:
        yield "the card has no hash of the weights"
    for file in (*quoted.data, *quoted.mean_of):
        name = f"{file.split}: {file.path}" if file.split else file.path
        path = path_or_unchanged(Path(file.path), run)
        if file.split and not path.exists() and _own_corpus(run).is_dir():
            yield f"{name} is not on this machine, and is not checked"
        else:
            yield _same_file(name, path, file.sha256)
    if quoted.scores is None:
        yield "the card quotes no scores"
        return
    with hardware.on_threads():
        yield from _scores(run, quoted, quoted.scores, hardware)


def _own_corpus(run: Path) -> Path:
    """The validation data as the run encoded them, which travel with it."""
    return run / "corpus" / "valid"


def _hardware(
    quoted: Quoted, device: str | None, precision: str | None, threads: int | None
) -> Hardware:
    """The caller's choice, else the card's where this machine has it."""
    kind = quoted.made_with.get("device", "cpu")
    if device is None and kind in device_kinds():
        device = kind
    if precision is None and device is not None and device.partition(":")[0] == kind:
        precision = quoted.made_with.get("precision")
    return Hardware.chosen(device, precision, compiles=False, threads=threads)


def _surroundings(quoted: Quoted) -> Iterator[str]:
    now = {"regard": regard.__version__, "code": code_hash(), "torch": torch.__version__}
    for name, found in now.items():
        if quoted.made_with.get(name, found) != found:
            what = "the code of regard" if name == "code" else name
            yield f"{what} is not the one that the card was written by"


def _same_file(what: str, path: Path, quoted: str | None) -> Check:
    found = file_hash(path)
    card = "unreadable" if quoted is None else f"SHA-256 {quoted[:12]}…"
    here = "missing" if found is None else f"SHA-256 {found[:12]}…"
    return Check(what, card, here, found == quoted and found is not None)


def _scores(
    run: Path, quoted: Quoted, scores: QuotedScores, hardware: Hardware
) -> Iterator[Check | str]:
    made = (quoted.made_with.get("device"), quoted.made_with.get("precision"))
    here = (hardware.device.type, str(hardware.precision).removeprefix("torch."))
    if made != here:
        yield (
            f"validated on {here[0]} in {here[1]}, but the card's numbers are from {made[0]} in "
            f"{made[1]}: more may differ"
        )
    if scores.weights != MODEL:
        yield f"the card's scores are of '{scores.weights}', and not of the final weights"
    try:
        is_own = not _has_data(run)
        if is_own:
            yield "scores are computed from the run's own copy of the validation data, corpus/valid"
        found = _validated(run, scores, hardware, is_own=is_own)
    except RegardError as error:
        # a missing or damaged file is a finding here, not a failure
        reason = f"cannot be computed: {error}"
        yield Check("scores", f"loss {scores.loss:.4f}", reason, is_repeated=False)
        return
    limits = SAME_DEVICE_LIMITS[here[1]] if made == here else OTHER_DEVICE_LIMITS
    for key, limit in limits.items():
        (name, digits), theirs, ours = PRINTED[key], getattr(scores, key), getattr(found, key)
        if theirs is not None and ours is not None:
            text = f"{ours:.{digits}f} (may differ by {limit:g})"
            is_same = abs(theirs - ours) <= limit + ROUNDING
            yield Check(name, f"{theirs:.{digits}f}", text, is_same)


def _has_data(run: Path) -> bool:
    """Whether validation has the raw data to read, and not only what the run encoded of them."""
    recipe = read_recipe(run / "recipe.toml")
    places = [place for _, place in data_files(recipe.data.valid, run)]
    return all(place.exists() for place in places) or not _own_corpus(run).is_dir()


def _validated(run: Path, scores: QuotedScores, hardware: Hardware, *, is_own: bool) -> Validated:
    """The validation again, from the raw data or from the run's own copy."""
    loaded = load_run(run)
    if scores.weights != MODEL:
        load_weights(run / scores.weights, loaded.model)
    recipe, limit = loaded.recipe, loaded.recipe.data.max_tokens
    model = hardware.place(loaded.model)
    with _corpus(run, loaded, hardware, is_own=is_own) as corpus:
        valid = Material.within(corpus, limit)
        # nothing is trained, so the validation split can take the place of training data
        sides = (loaded.source, loaded.target)
        prepared = Prepared(
            recipe, run, SINGLE_PROCESS, *sides, train=valid, valid=valid, left_out={}
        )
        return validate(model, prepared, hardware, scores.step, n_examples=scores.decoded_examples)


@contextmanager
def _corpus(run: Path, loaded: Loaded, hardware: Hardware, *, is_own: bool) -> Iterator[Corpus]:
    if not is_own:
        with numbered(texts_of_split(loaded.recipe, "valid", run), loaded, hardware) as corpus:
            yield corpus
        return
    split, sources = Split(loaded.recipe, run, "valid"), task_of(loaded.recipe).sources
    corpus = sources.open(_own_corpus(run), split)
    yield sources.as_model_sees(corpus, split, loaded.model, hardware)
