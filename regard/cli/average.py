"""regard average: several files of weights → their mean, as a run or as a file."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import typer

from regard.cli.options import IMPORTS
from regard.data.atomic_writes import written_beside
from regard.data.files import names_like
from regard.errors import CheckpointError, RunError, SettingError, counted
from regard.recipes.data_paths import Start, read_start, write_start
from regard.recipes.part_files import check_parts, record_parts
from regard.recipes.recipe import read_recipe
from regard.runs.trained import load_run
from regard.tasks.loaded_run import load_subwords, subword_files
from regard.training.averages import mean_of
from regard.training.card import write_mean_card
from regard.training.card_json import MODEL, recorded_data
from regard.training.checkpoint_hashes import check_is_whole
from regard.training.checkpoints import checkpoints, tensor_forms, write_tensors
from regard.training.run_folder import check_can_be_made, check_is_run


def average(
    weights: list[Path] = typer.Argument(
        help="Checkpoints, .safetensors files, or runs; with --last, runs."
    ),
    out: Path = typer.Option(
        ..., help="A new run, or a file that ends in .safetensors; never overwritten."
    ),
    last: int | None = typer.Option(None, min=1, help="So many of a run's last checkpoints."),
    imports: list[Path] = IMPORTS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Average weights of one shape, and make a finished run of the mean.

    The new run has the recipe and the sub-words of the first weights' run, and a card that says
    what it is the mean of.

    Example: regard average runs/en-de --last 5 --out runs/en-de-mean
    """
    check_can_be_made(out, "average")
    if out.exists():
        raise RunError(
            f"average: '{out}' is there already, and is never overwritten. Choose another --out."
        )
    files = [file for path in weights for file in _files(path, last)]
    if len(files) < 2:
        raise SettingError(
            f"average: expected at least two weights, got {len(files)}. Give more, or a run with "
            "--last 5."
        )
    _check_alike(files)
    if out.suffix == ".safetensors":
        out.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(out, mean_of(files))
    else:
        _make_run(out, files)
    report = {"out": str(out), "mean_of": [str(file) for file in files]}
    text = "\n".join([f"wrote {out}, the mean of", *(f"  {file}" for file in files)])
    print(json.dumps(report) if as_json else text)


def _files(path: Path, last: int | None) -> list[Path]:
    """The files of weights that a path names."""
    if last is not None:
        check_is_run(path, "average")
        found = checkpoints(path / "checkpoints")
        if len(found) < last:
            fewer = "Ask for fewer, or train" if found else "Train"
            raise RunError(
                f"average: '{path}' has {counted(len(found), 'checkpoint')}, but --last asks for "
                f"{last}. {fewer} with a larger training.keep_checkpoints."
            )
        for each in found[-last:]:
            check_is_whole(each)
        return [each / MODEL for each in found[-last:]]
    file = path / MODEL if path.is_dir() else path
    if not path.exists():
        raise RunError(f"average: there is no '{path}'. {names_like(path)}")
    if not file.exists():
        raise RunError(
            f"average: '{path}' is neither a checkpoint nor a finished run nor a .safetensors "
            "file. Give one, or a run with --last 5."
        )
    if path.is_dir():
        check_is_whole(path)
    return [file]


def _check_alike(files: Sequence[Path]) -> None:
    first = tensor_forms(files[0])
    for file in files[1:]:
        found = tensor_forms(file)
        for name in sorted(first.keys() | found.keys()):
            ours, theirs = (
                f"{form[name][1]} of {form[name][0]}" if name in form else "missing"
                for form in (first, found)
            )
            if ours != theirs:
                raise CheckpointError(
                    f"average: '{files[0]}' and '{file}' are weights of different models: '{name}' "
                    f"is {ours} in the first and {theirs} in the second. Only weights of one "
                    "recipe have a mean: leave one of the two out."
                )


def _run_of(file: Path) -> Path:
    """The run that a file of weights belongs to."""
    for folder in file.resolve().parents[:3]:
        if (folder / "recipe.toml").exists():
            return folder
    raise RunError(
        f"average: '{file}' belongs to no run, whose recipe and sub-words a new run needs. Write a "
        "file instead: --out mean.safetensors."
    )


def _make_run(out: Path, files: Sequence[Path]) -> None:
    runs = list(dict.fromkeys(_run_of(file) for file in files))
    for run in runs:
        check_parts(run)
    recipe = read_recipe(runs[0] / "recipe.toml")
    vocabularies = {run: load_subwords(read_recipe(run / "recipe.toml"), run) for run in runs}
    marks = {run: [one.fingerprint for one in sides] for run, sides in vocabularies.items()}
    for run, mark in marks.items():
        if mark != marks[runs[0]]:
            raise RunError(
                f"average: '{run}' has other sub-words than '{runs[0]}', so that their weights "
                "mean other things. Average runs that started from one another."
            )
    with written_beside(out) as partial:
        partial.mkdir(parents=True)
        for name in ("recipe.toml", *subword_files(recipe)):
            shutil.copyfile(runs[0] / name, partial / name)
        if (start := read_start(runs[0])) is not None:
            write_start(partial, Start(start.folder, out.resolve()))
        write_tensors(partial / MODEL, mean_of(files))
        record_parts(partial, recipe)
        write_mean_card(partial, recipe, files, recorded_data(runs[0]))
        # a check: the new run must load
        load_run(partial)
