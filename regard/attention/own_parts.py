"""Own parts: links from a file of the user's, for recipes and the command line.

    regard train recipe.toml --out runs/x --import my_parts.py
    regard.import_parts("my_parts.py")

A part is a class that inherits `Score`, `Relation`, `Pattern`, `Selection` or `Memory`; its name is
`own_name`, or the class's: `DistanceScore` is `distance`. A file is run only where it is named, and
never one inside a run: a run is data.
"""

import inspect
import re
import sys
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.attention.given_links import KINDS
from regard.attention.link_tables import LinkTable, PartOrigin
from regard.data.files import names_like
from regard.dims import Dims
from regard.errors import SettingError


def import_parts(path: Path | str) -> tuple[str, ...]:
    """Run a Python file and add its links to the tables; gives back their names."""
    path = Path(path)
    _check_may_run(path)
    module, found = _run(path), []
    for part in vars(module).values():
        table = _table_of(part) if inspect.isclass(part) else None
        if table is None or part.__module__ != module.__name__ or inspect.isabstract(part):
            continue
        _check_takes_dims(path, part)
        name = _name_of(part)
        mark = sha256(path.read_bytes()).hexdigest()
        table.add(name, part, PartOrigin(str(path), mark))
        found.append(name)
    if not found:
        raise SettingError(
            f"import: '{path}' holds no part: a class that inherits Score, Relation, Pattern, "
            "Selection or Memory of regard.parts. Write one, or leave --import out."
        )
    return tuple(found)


def _check_may_run(path: Path) -> None:
    if not path.is_file():
        raise SettingError(f"import: there is no file '{path}'. {names_like(path)}")
    if path.suffix != ".py":
        raise SettingError(f"import: expected a Python file (.py), got '{path}'.")
    inside = next(
        (each for each in path.resolve().parents if (each / "model.safetensors").exists()), None
    )
    if inside is not None:
        raise SettingError(
            f"import: '{path}' lies in the run '{inside.name}', and a run is data: nothing in it "
            "is run. Read the file, and copy it to another place first."
        )


def _run(path: Path) -> ModuleType:
    name = f"regard_own_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # dataclasses and type hints look their module up
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise SettingError(
            f"import: '{path}' fails ({type(error).__name__}: {error}). Run it with python to see "
            "where."
        ) from error
    return module


def _table_of(part: type) -> LinkTable | None:
    return next((kind.table for kind in KINDS.values() if kind.protocol in part.__mro__), None)


def _name_of(part: Any) -> str:
    nouns = "|".join(kind.noun.capitalize() for kind in KINDS.values())
    idea = re.sub(f"({nouns})$", "", part.__name__)
    return str(vars(part).get("own_name") or re.sub(r"(?<!^)(?=[A-Z])", "_", idea).lower())


def _check_takes_dims(path: Path, part: type) -> None:
    """Refuse a class that is not made like every other part: of sizes, and settings by keyword."""
    try:
        inspect.signature(part).bind(Dims(d_model=1))
    except TypeError as error:
        raise SettingError(
            f"import: {part.__name__} of '{path}' must be made of sizes alone ({error}). Write "
            "def __init__(self, dims: Dims, *, setting: int = 1), with a default for each setting."
        ) from error
