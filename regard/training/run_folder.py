"""Run folder: checks whether a training may begin or resume in it, locks it, and handles stops.

One process at a time trains in a folder. Ctrl-C and SIGTERM let it finish its update and save.
"""

import difflib
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from shlex import quote

from regard.data.files import first_names, is_text, names_like
from regard.errors import RunError
from regard.recipes.recipe import Recipe, read_recipe
from regard.training.card_json import file_hash, read_quoted
from regard.training.checkpoints import checkpoints, read_progress


def holds_anything(out: Path) -> bool:
    """Whether the folder is there and not empty."""
    return out.is_dir() and any(out.iterdir())


def delete_contents(out: Path) -> None:
    """Delete what can be deleted of a folder's contents; the folder, which is locked, stays."""
    for path in out.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def check_is_folder(out: Path) -> None:
    """Refuse a file, and a place where no folder can be made."""
    check_can_be_made(out, "train")
    if out.exists() and not out.is_dir():
        raise RunError(f"train: '{out}' is a file; a run is a folder. Choose another --out.")


def check_is_new(out: Path) -> None:
    """Refuse a folder that is not empty, which a new run would overwrite."""
    if (out / "model.safetensors").exists():
        raise RunError(f"train: '{out}' holds a finished run. Choose another --out.")
    if holds_anything(out):
        raise RunError(
            f"train: '{out}' is not empty, and a run is never overwritten. Add --resume to go on "
            "with it, or choose another --out."
        )


def check_is_same(recipe: Recipe, out: Path) -> None:
    """Refuse another recipe than the run was begun with; [training] may change while it goes on.

    A finished run goes on where the recipe asks for more updates than its last checkpoint has.
    """
    check_are_folders(out)
    if not (out / "recipe.toml").exists():
        return
    asked, begun = recipe.as_table(), read_recipe(out / "recipe.toml").as_table()
    is_finished = (out / "model.safetensors").exists()
    if is_finished and recipe.training.steps > begun["training"]["steps"]:
        is_finished = False
        _check_can_go_on(recipe, out)
    fixed = {**asked, **begun} if is_finished else ("data", "tokens", "model", "pictures")
    for section in fixed:
        now, then = asked.get(section, {}), begun.get(section, {})
        if now != then:
            key = next(k for k in {**now, **then} if now.get(k) != then.get(k))
            what = "is finished" if is_finished else "was begun"
            raise RunError(
                f"train: '{out}' {what} with another {section}.{key}: "
                f"{then.get(key)!r}, not {now.get(key)!r}. Give what it has, or choose another "
                "--out."
            )


def has_steps_left(recipe: Recipe, out: Path) -> bool:
    """Whether a finished run is asked for more updates than it has, or was killed during them."""
    found = checkpoints(out / "checkpoints")
    if not found:
        return False
    progress, training = read_progress(found[-1]), recipe.training
    has_given_up = 0 < training.patience <= progress.stale
    is_longer = training.steps > read_recipe(out / "recipe.toml").training.steps
    return (
        progress.step < training.steps
        and not has_given_up
        and (is_longer or not _ended_by_its_recipe(out))
    )


def _ended_by_its_recipe(out: Path) -> bool:
    """Whether the card is of the recipe that the run has now; true without a readable card."""
    try:
        quoted = read_quoted(out).files.get("recipe.toml")
    except RunError:
        return True
    return quoted == file_hash(out / "recipe.toml")


def _check_can_go_on(recipe: Recipe, out: Path) -> None:
    """Refuse to train a finished run longer where nothing could go on."""
    found = checkpoints(out / "checkpoints")
    if not found:
        raise RunError(
            f"train: '{out}' is finished and has no checkpoint to go on from. Begin a new run from "
            f"its weights: --set training.start_from={out}."
        )
    if not has_steps_left(recipe, out):
        raise RunError(
            f"train: '{out}' stopped early, by training.patience = {recipe.training.patience}, so "
            "more updates would change nothing. Raise training.patience too, or set it to 0."
        )


def changed_settings(recipe: Recipe, out: Path) -> list[str]:
    """Notes on settings of [training] that differ from the run's first ones, or on a new run."""
    if not (out / "recipe.toml").exists():
        return [f"there is no run '{out}' to go on with; a new one begins"]
    begun, now = vars(read_recipe(out / "recipe.toml").training), vars(recipe.training)
    return [
        f"training.{key} is {now[key]!r} from here on; the run was begun with {was!r}"
        for key, was in begun.items()
        if now[key] != was
    ]


def check_is_there(run: Path) -> None:
    """Refuse to resume a run whose folder is missing: its name was most likely mistyped."""
    if run.exists():
        return
    beside = run.parent.iterdir() if run.parent.is_dir() else ()
    names = [each.name for each in beside if (each / "recipe.toml").is_file()]
    near = difflib.get_close_matches(run.name, names, n=1)
    hint = f" Did you mean '{run.parent / near[0]}'?" if near else ""
    raise RunError(
        f"train: there is no run '{run}' to go on with.{hint} Give a run that is there, or leave "
        "--resume out to begin a new run; a script that always gives --resume makes the folder "
        f"first: mkdir -p {quote(str(run))}."
    )


def check_are_folders(run: Path) -> None:
    """Refuse a run in which something else stands where its folders belong."""
    for path in (run / "checkpoints", run / "corpus", run / "corpus/train", run / "corpus/valid"):
        if os.path.lexists(path) and not path.is_dir():
            raise RunError(
                f"train: '{path}' must be a folder. Put back a whole copy, or delete it: what it "
                "held is made anew, and without checkpoints the training begins again."
            )


def is_unfinished_run(path: Path) -> bool:
    """Whether a folder holds a run that has been begun and has no final weights."""
    return (path / "recipe.toml").is_file() and not os.path.lexists(path / "model.safetensors")


def finished_weights(path: Path) -> Path:
    """The file of a finished run's weights."""
    weights, problem = path / "model.safetensors", f"'{path}' is not a finished run"
    if path.is_file():
        raise RunError(f"{problem} but a file. Give the folder that regard train made.")
    if not path.is_dir():
        raise RunError(f"{problem}: there is no such folder. {names_like(path)}")
    if not weights.exists():
        if not os.path.lexists(path / "recipe.toml"):
            raise RunError(f"'{path}' is no run: {_without_recipe(path)}")
        found = checkpoints(path / "checkpoints")
        newest = f", or take its newest checkpoint: {found[-1]}" if found else ""
        raise RunError(
            f"{problem}: there is no model.safetensors in it. Train it to its end with regard "
            f"train --resume{newest}."
        )
    return weights


def check_is_run(path: Path, who: str) -> None:
    """Refuse what is no run; it may be unfinished."""
    problem = f"{who}: '{path}' is no run"
    if path.is_file():
        raise RunError(f"{problem} but a file. Give the folder that regard train made.")
    if not path.is_dir():
        raise RunError(f"{problem}: there is no such folder. {names_like(path)}")
    if not os.path.lexists(path / "recipe.toml"):
        raise RunError(f"{problem}: {_without_recipe(path)}")


def _without_recipe(folder: Path) -> str:
    """What a folder lacks to be a run, and the runs in it, of which one may be meant."""
    lacks = "there is no recipe.toml in it."
    runs = sorted(each.name for each in folder.iterdir() if (each / "recipe.toml").is_file())
    if not runs:
        return f"{lacks} Give a folder that regard train made."
    return f"{lacks} Give a run that it holds: {first_names(runs)}."


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals to stop that came so far; they have their old handlers after the block."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # a module that is not there has no other type


MAX_NAME_BYTES = 240
"""The longest name of a file or folder: file systems take 255 bytes, with the ending .partial."""


def check_can_be_made(path: Path, who: str) -> None:
    """Raise an error before any long work if a file or folder cannot be made at this path."""
    if not is_text(str(path)):
        raise RunError(
            f"{who}: the name {str(path)!r} is not UTF-8, so that no card can hold it. Choose "
            "another name."
        )
    if long := next((part for part in path.parts if len(os.fsencode(part)) > MAX_NAME_BYTES), None):
        raise RunError(
            f"{who}: the name '{long[:40]}…' has {len(os.fsencode(long))} bytes, and a file system "
            f"takes names of {MAX_NAME_BYTES} beside its own. Choose a shorter one."
        )
    there = next(each for each in (path, *path.parents) if each.exists())
    if there != path and not there.is_dir():
        raise RunError(
            f"{who}: '{there}' is a file, so that '{path}' cannot be made in it. Choose another "
            "place."
        )
    if not os.access(there, os.W_OK):
        raise RunError(f"{who}: nothing may be written into '{there}'. Choose another place.")


def locked(folder: Path) -> AbstractContextManager[None]:
    """A context that holds a folder, which is made if missing; an error if another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    return _locked_by_a_file(folder) if fcntl is None else _locked_by_the_system(folder)


@contextmanager
def _locked_by_the_system(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"train: '{folder}' is being trained in already. Wait until that has ended, or "
                "choose another --out."
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _locked_by_a_file(folder: Path) -> Iterator[None]:
    file = folder.resolve().parent / f"{folder.resolve().name}.lock"
    try:
        file.touch(exist_ok=False)
    except FileExistsError as error:
        raise RunError(
            f"train: '{folder}' is being trained in already: there is '{file}'. Wait until that "
            "has ended; if it was killed, delete this file."
        ) from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
