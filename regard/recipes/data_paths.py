"""Data paths: find the files of a run's recipe from any folder.

    RUN/data_paths.json     the folder that relative paths start from, and where the run was

A relative path of a recipe starts from the folder in which the training was started. The run keeps
that folder beside its recipe, whose paths stay as they were given. A file is looked for

1. where it was when the training was started,
2. where it lies from the run, so that run and data may be moved together,
3. from the current folder,
4. from the run's own folder and the two above it, if the run recorded no folder.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from regard.choices import Choice
from regard.data import PICTURE_READERS, READERS, Example
from regard.data.atomic_writes import write_text
from regard.data.files import Unreadable, read_json
from regard.errors import DataError, RunError
from regard.recipes.recipe import DataRecipe, examples
from regard.recipes.sections import Mistakes, read_section

FILE = "data_paths.json"
VERSION = 1
N_ABOVE = 2
"""How many folders above a run are searched if it recorded none: PROJECT/runs/RUN."""


@final
@dataclass(frozen=True)
class Start:
    """The folders at the start of a training; both are absolute."""

    folder: Path
    """The folder that relative paths start from."""
    run: Path
    """The folder of the run."""

    def path_from(self, path: Path) -> Path:
        """A path from the current folder, made relative to the recorded one unless absolute."""
        if path.is_absolute():
            return path
        here = Path.cwd().resolve() / path
        return _relative(here, self.folder) or here


def run_of(path: Path) -> Path:
    """The run itself, or the run that a checkpoint (RUN/checkpoints/step-000500) belongs to."""
    whole = path.absolute()
    if whole.parent.name != "checkpoints" or (path / "recipe.toml").exists():
        return path
    return path.parent.parent if len(path.parts) > 2 else whole.parents[1]


def record_start(run: Path, data: DataRecipe) -> None:
    """Record the current folder in a new run that reads files."""
    if any(paths_of(each) for each in (data.train, data.valid, data.test) if each):
        write_start(run, Start(Path.cwd().resolve(), run.resolve()))


def write_start(run: Path, start: Start) -> None:
    """Write the folders at the start of a training."""
    said = {"version": VERSION, "folder": str(start.folder), "run": str(start.run)}
    write_text(run / FILE, json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def read_start(run: Path) -> Start | None:
    """The recorded folders of a run; None if it has none."""
    path = run / FILE
    if not os.path.lexists(path):
        return None
    try:
        match read_json(path):
            case {"version": 1, "folder": str() as folder, "run": str() as then}:
                return Start(Path(folder), Path(then))
        raise Unreadable("does not have version 1, folder and run")
    except Unreadable as error:
        raise RunError(
            f"'{path}' cannot be read: it {error}. Delete it, and data are looked for from the "
            "current folder and from the run's own."
        ) from error


def find_path(path: Path, run: Path) -> Path:
    """A path of a run's recipe that can be opened here; unchanged if it exists from here.

    A path with one possible place is given back unchecked, since the reader that opens it has the
    better error.
    """
    places = list(dict.fromkeys(Path(os.path.normpath(one)) for one in _places(path, run)))
    if len(places) == 1:
        return path
    found = next((place for place in places if place.exists()), None)
    if found is None:
        tried = ", ".join(f"'{place}'" for place in places)
        raise DataError(
            f"data: there is no '{path}', which the recipe of '{run}' names. It was looked for at "
            f"{tried}. Bring it to one of these places, or call from the folder in which the path "
            "starts."
        )
    return path if path.exists() and path.samefile(found) else found


def _places(path: Path, run: Path) -> Iterator[Path]:
    """The possible places of a path, the likeliest first, all of them absolute."""
    run = run_of(run)
    start, here, own = read_start(run), Path.cwd().resolve(), run.resolve()
    if start is not None:
        then = start.folder / path
        yield then
        if (from_run := _relative(then, start.run)) is not None:
            yield own / from_run
    # an absolute path is the same from everywhere
    yield here / path
    if start is None:
        yield from (folder / path for folder in (own, *own.parents[:N_ABOVE]))


def _relative(path: Path, folder: Path) -> Path | None:
    """A path relative to a folder; None if they are on two drives."""
    try:
        return Path(os.path.relpath(path, folder))
    except ValueError:
        return None


def located(choice: Choice, run: Path) -> Choice:
    """A reader's settings with the paths at which its files are found; a generator has none."""
    settings = dict(choice.settings)
    for name, paths in paths_of(choice).items():
        found = [str(find_path(path, run)) for path in paths]
        settings[name] = found if isinstance(choice.settings[name], list) else found[0]
    return replace(choice, settings=settings)


def examples_of(choice: Choice, split: str, run: Path | None) -> Callable[[], Iterator[Example]]:
    """How to read a split of a run's data, anew at each call; without a run, from here."""
    return examples(choice if run is None else located(choice, run), split)


def data_files(choice: Choice, run: Path) -> list[tuple[Path, Path]]:
    """The files that a reader reads, each as the recipe names it and where it is found.

    A generator, or a data set of the hub, has none. A folder of pictures counts as one file.
    """
    found = []
    for given in (path for paths in paths_of(choice).values() for path in paths):
        place = path_or_unchanged(given, run)
        if choice.name in PICTURE_READERS or not place.is_dir():
            found.append((given, place))
        else:
            held = sorted(each for each in place.iterdir() if each.is_file())
            found += [(given / each.name, each) for each in held]
    return found


def path_or_unchanged(path: Path, run: Path) -> Path:
    """The result of `find_path`, or the path itself if it is found nowhere."""
    try:
        return find_path(path, run)
    except DataError:
        return path


def paths_of(choice: Choice) -> dict[str, list[Path]]:
    """The settings of a reader that are paths, by their names."""
    if choice.name not in READERS:
        return {}
    each = {
        name: list(value if isinstance(value, tuple) else (value,))
        for name, value in reader_settings(choice).items()
        if name in choice.settings
    }
    return {name: some for name, some in each.items() if some and isinstance(some[0], Path)}


def reader_settings(choice: Choice) -> dict[str, Any]:
    """All settings of a reader, each as its type; empty where it cannot be made."""
    reader = read_section(READERS[choice.name], choice.settings, "data", Mistakes())
    return {} if reader is None else vars(reader)
