"""Checkpoint hashes: damage to a checkpoint, or to what its run reads, is found before training.

    checkpoints/step-000500/hashes.json    {"checkpoint": {name: SHA-256}, "run": {path: SHA-256},
                                            "sha256": of these two}

A checkpoint of an older version has no such file, and is taken as it is.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from regard.data.atomic_writes import move_into_place, write_text
from regard.data.files import Unreadable, read_json
from regard.errors import CheckpointError, RunError
from regard.training.card_json import file_hash

HASHES = "hashes.json"
DAMAGED = ".damaged"
"""The ending of a checkpoint that was set aside."""
FOLDERS = ("corpus", "pictures", "annotations")
"""The folders of a run that its training reads."""


class RunHashes:
    """The hashes of the files that a training reads from its run; a changed file is read again."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._known: dict[Path, tuple[tuple[int, int], str | None]] = {}

    def current(self) -> dict[str, str | None]:
        """The hash of each file, by its path inside the run."""
        found: dict[Path, tuple[tuple[int, int], str | None]] = {}
        for path in _read_by_training(self.run):
            status = path.stat()
            version = (status.st_size, status.st_mtime_ns)
            known = self._known.get(path)
            found[path] = known if known and known[0] == version else (version, file_hash(path))
        self._known = found
        return {path.relative_to(self.run).as_posix(): each for path, (_, each) in found.items()}


def _read_by_training(run: Path) -> Iterator[Path]:
    yield from run.glob("tokenizer*.json")
    for name in FOLDERS:
        yield from (path for path in (run / name).rglob("*") if path.is_file())


def write_hashes(checkpoint: Path, of_run: Mapping[str, str | None]) -> None:
    """Write the hashes of all files of a checkpoint beside them, and those of its run's files."""
    files = (path for path in sorted(checkpoint.iterdir()) if path.name != HASHES)
    hashes = {"checkpoint": {path.name: file_hash(path) for path in files}, "run": dict(of_run)}
    text = json.dumps({**hashes, "sha256": _hash_of(hashes)}, indent=1)
    write_text(checkpoint / HASHES, text + "\n")


def damage_to(checkpoint: Path) -> str:
    """What of a checkpoint is not as it was written; empty if all of it is."""
    try:
        hashes = _hashes(checkpoint)
    except Unreadable as error:
        return f"{HASHES} {error}"
    changed = [
        name for name, was in hashes["checkpoint"].items() if file_hash(checkpoint / name) != was
    ]
    return f"{' and '.join(changed)} changed since it was written" if changed else ""


def check_is_whole(checkpoint: Path) -> None:
    """Refuse a damaged checkpoint."""
    if found := damage_to(checkpoint):
        raise CheckpointError(
            f"checkpoint '{checkpoint}': {found}. Put back a whole copy of it, or take another one."
        )


def check_run_is_whole(run: Path, newest: Path) -> None:
    """Refuse a run whose vocabularies or corpora changed since its newest checkpoint."""
    for name, was in _hashes(newest)["run"].items():
        path = run / name
        # what is missing is made anew
        if path.exists() and file_hash(path) != was:
            whole = path.parent if path.parent != run else path
            raise RunError(
                f"train: '{path}' changed since '{newest.name}' was written, so that the "
                "training would go on with other data. Put back a whole copy, or delete "
                f"'{whole}': it is made anew from the recipe's data."
            )


def set_damaged_aside(found: Sequence[Path]) -> list[str]:
    """Rename those of a run's checkpoints that are damaged; notes on them.

    If none is whole, an error names the newest.
    """
    damaged = {path: what for path in found if (what := damage_to(path))}
    if not damaged:
        return []
    if len(damaged) == len(found):
        path, what = next(reversed(damaged.items()))
        raise CheckpointError(
            f"train: checkpoint '{path}': {what}, and no other one is whole. Put back a whole copy "
            f"of it, or delete '{path.parent}': the training then begins again."
        )
    notes = []
    for path, what in damaged.items():
        aside = _free_name(path)
        move_into_place(path, aside)
        notes.append(f"checkpoint '{path.name}' is set aside as '{aside.name}': {what}")
    return notes


def _hashes(checkpoint: Path) -> dict[str, dict[str, str | None]]:
    path = checkpoint / HASHES
    if not path.exists():
        return {"checkpoint": {}, "run": {}}
    match read_json(path):
        case {"checkpoint": dict() as own, "run": dict() as of_run, "sha256": str() as of_both}:
            hashes = {"checkpoint": own, "run": of_run}
            if _hash_of(hashes) == of_both:
                return hashes
    raise Unreadable("changed since it was written")


def _hash_of(hashes: Mapping[str, Mapping[str, str | None]]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _free_name(path: Path) -> Path:
    """A name beside a damaged checkpoint that nothing has yet."""
    names = chain([path.name + DAMAGED], (f"{path.name}{DAMAGED}-{n}" for n in count(2)))
    return next(free for name in names if not (free := path.with_name(name)).exists())
