"""Where a run's data are: the paths of its recipe, found from any folder.

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
from typing import final

from regard.choices import Choice
from regard.data import PICTURE_READERS, READERS, Example
from regard.data.atomic_writes import write_text
from regard.data.regular_files import Unreadable, read_json
from regard.errors import DataError, RunError
from regard.recipes.recipe import DataRecipe, examples
from regard.recipes.sections import Mistakes, read_section

FILE = "data_paths.json"
VERSION = 1
N_ABOVE = 2
"""How many folders above a run are searched where nothing is recorded: PROJECT/runs/RUN."""


@final
@dataclass(frozen=True)
class Start:
    """Where a training was started; both folders are absolute."""

    folder: Path
    """What relative paths start from."""
    run: Path
    """Where the run was."""

    def path_from(self, path: Path) -> Path:
        """A path from the current folder as a path from the recorded one; absolute ones stay."""
        if path.is_absolute():
            return path
        here = Path.cwd().resolve() / path
        return _relative(here, self.folder) or here


def record_start(run: Path, data: DataRecipe) -> None:
    """Keep the current folder in a run that is begun and reads files.

    Args:
        run: the run's directory.
        data: where its examples come from.
    """
    if any(paths_of(each) for each in (data.train, data.valid, data.test) if each):
        write_start(run, Start(Path.cwd().resolve(), run.resolve()))


def write_start(run: Path, start: Start) -> None:
    """Keep where a training was started."""
    said = {"version": VERSION, "folder": str(start.folder), "run": str(start.run)}
    write_text(run / FILE, json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def read_start(run: Path) -> Start | None:
    """Where the training of a run was started; None if it recorded nothing."""
    path = run / FILE
    if not os.path.lexists(path):
        return None
    try:
        said = read_json(path)
    except Unreadable as error:
        raise _malformed(path, f"it {error}") from error
    match said:
        case {"version": 1, "folder": str() as folder, "run": str() as then}:
            return Start(Path(folder), Path(then))
        case _:
            raise _malformed(path, "it does not have version 1, folder and run")


def _malformed(path: Path, why: str) -> RunError:
    return RunError(
        f"'{path}' cannot be read: {why}. Delete it, and data are looked for from the current "
        "folder and from the run's own."
    )


def find_path(path: Path, run: Path) -> Path:
    """A path of a run's recipe as it can be opened here; as it is where it is found from here.

    A path that can only lie in one place is given back without a look, since the reader that opens
    it tells best what is wrong with it.

    Args:
        path: as the recipe, or the run's card, has it.
        run: the run's directory.
    """
    places = list(dict.fromkeys(_places(path, run)))
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
    """Where a path may lie, the likeliest first, all of them absolute."""
    start, here, own = read_start(run), Path.cwd().resolve(), run.resolve()
    if start is not None:
        then = start.folder / path
        yield _normal(then)
        if (from_run := _relative(then, start.run)) is not None:
            yield _normal(own / from_run)
    # an absolute path is the same from everywhere
    yield _normal(here / path)
    if start is None:
        yield from (_normal(folder / path) for folder in (own, *own.parents[:N_ABOVE]))


def _relative(path: Path, folder: Path) -> Path | None:
    """A path from a folder; None where they lie on two drives."""
    try:
        return Path(os.path.relpath(path, folder))
    except ValueError:
        return None


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def located(choice: Choice, run: Path) -> Choice:
    """A reader's settings with the paths at which its files are found; a generator has none.

    Args:
        choice: a split of the run's recipe.
        run: the run's directory.
    """
    found = {
        name: [str(find_path(path, run)) for path in paths]
        for name, paths in paths_of(choice).items()
    }
    settings = {
        name: paths if isinstance(choice.settings[name], list) else paths[0]
        for name, paths in found.items()
    }
    return replace(choice, settings={**choice.settings, **settings})


def examples_of(choice: Choice, split: str, run: Path | None) -> Callable[[], Iterator[Example]]:
    """How to read a split of a run's data, anew at each call; without a run, from here."""
    return examples(choice if run is None else located(choice, run), split)


def data_files(choice: Choice, run: Path) -> list[tuple[Path, Path]]:
    """The files that a reader reads, each as the recipe names it and where it is found.

    None for a generator, or a data set of the hub. A folder of pictures stands for all that is in
    it.
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
    """What `find_path` gives; a path that is found nowhere is given back as it is."""
    try:
        return find_path(path, run)
    except DataError:
        return path


def paths_of(choice: Choice) -> dict[str, list[Path]]:
    """The settings of a reader that are paths, by their names."""
    if choice.name not in READERS:
        return {}
    reader = read_section(READERS[choice.name], choice.settings, "data", Mistakes())
    values = {} if reader is None else vars(reader)
    each = {
        name: list(value if isinstance(value, tuple) else (value,))
        for name, value in values.items()
        if name in choice.settings
    }
    return {name: some for name, some in each.items() if some and isinstance(some[0], Path)}
