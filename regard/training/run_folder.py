"""The folder of a run: whether a training may begin in it, or go on there."""

import difflib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from shlex import quote

from regard.errors import RunError
from regard.recipes.recipe import Recipe, read_recipe
from regard.training.run_lock import check_can_be_made


def holds_anything(out: Path) -> bool:
    """Whether the folder is there and not empty."""
    return out.is_dir() and any(out.iterdir())


def delete_contents(out: Path) -> None:
    """Delete what can be deleted of a folder's contents; the folder, which is locked, stays."""
    for each in out.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            with suppress(OSError):
                each.unlink()


def check_is_folder(out: Path) -> None:
    """Refuse a file, and a place where no folder can be made."""
    if out.exists() and not out.is_dir():
        raise RunError(f"train: '{out}' is a file; a run is a folder. Choose another --out.")
    check_can_be_made(out, "train")


def check_is_new(out: Path) -> None:
    """Refuse a folder that holds something, which a new run would overwrite."""
    check_is_folder(out)
    if (out / "model.safetensors").exists():
        raise RunError(f"train: '{out}' holds a finished run. Choose another --out.")
    if holds_anything(out):
        raise RunError(
            f"train: '{out}' is not empty, and a run is never overwritten. Add --resume to go on "
            "with it, or choose another --out."
        )


def check_is_same(recipe: Recipe, out: Path) -> None:
    """Refuse another recipe than the run was begun with; before its end [training] may change."""
    check_are_folders(out)
    if not (out / "recipe.toml").exists():
        return
    asked, begun = recipe.as_table(), read_recipe(out / "recipe.toml").as_table()
    is_finished = (out / "model.safetensors").exists()
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


def changed_settings(recipe: Recipe, out: Path) -> list[str]:
    """Notes on what of [training] is not as it was when the run was begun, or that none was."""
    if not (out / "recipe.toml").exists():
        return [f"there is no run '{out}' to go on with; a new one begins"]
    begun, asked = read_recipe(out / "recipe.toml").training, recipe.training
    return [
        f"training.{key} is {getattr(asked, key)!r} from here on; the run was begun with {was!r}"
        for key, was in vars(begun).items()
        if getattr(asked, key) != was
    ]


def check_is_there(run: Path) -> None:
    """Refuse to go on with a run whose folder is not there: its name was most likely mistyped."""
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
    for name in ("checkpoints", "corpus", "corpus/train", "corpus/valid"):
        path = run / name
        if os.path.lexists(path) and not path.is_dir():
            raise RunError(
                f"train: '{path}' must be a folder. Put back a whole copy, or delete it: what it "
                "held is made anew, and without checkpoints the training begins again."
            )
