"""The catalogue: every mechanism, read from its own file's docstring.

A mechanism's docstring has one form: a sentence, the indented equation, a line `Paper: …` and a
line `Cost: …`. The command line, the pages and the studio all read it through this module. The
files are parsed and not imported, because the page of a mechanism needs no torch.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.choices import find

PACKAGE = Path(__file__).parent

TABLES: Mapping[str, tuple[str, str]] = {
    "score": ("attention/tables.py", "SCORES"),
    "relation": ("attention/tables.py", "RELATIONS"),
    "pattern": ("attention/tables.py", "PATTERNS"),
    "selection": ("attention/tables.py", "SELECTIONS"),
    "memory": ("attention/tables.py", "MEMORIES"),
    "heads": ("attention/__init__.py", "HEADS"),
    "positions": ("positions/__init__.py", "POSITIONS"),
    "layer": ("layers/__init__.py", "LAYERS"),
}
"""For each kind of mechanism, the file in the package and the table in it that name them."""


@dataclass(frozen=True)
class Mechanism:
    """The documentation of one mechanism."""

    kind: str
    name: str
    summary: str
    equation: str
    paper: str
    cost: str
    settings: Mapping[str, str]
    """Its own settings and their defaults, as they are written in a recipe."""
    file: str
    """The file that holds it, relative to the package's folder."""
    part: str
    """The class or function that it stands for."""

    @property
    def module(self) -> str:
        """The module that it is imported from."""
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def one_line(self) -> str:
        """The equation without line breaks."""
        return ";  ".join(self.equation.splitlines())


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """All mechanisms, kind by kind, in teaching order."""
    return tuple(
        _read(kind, name, _home(_parsed(file), part), part)
        for kind, (file, table) in TABLES.items()
        for name, part in _rows(_parsed(file), table)
    )


def mechanism(name: str) -> Mechanism:
    """One mechanism by its name, or an error that names the nearest."""
    return find(name, {entry.name: entry for entry in mechanisms()})


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def _rows(tables: ast.Module, wanted: str) -> Iterator[tuple[str, str]]:
    """The names in a table, each with the class or function that it stands for."""
    for line in tables.body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and wanted in _targets(line):
            rows = line.value.args[-1] if isinstance(line.value, ast.Call) else line.value
            assert isinstance(rows, ast.Dict)
            for key, part in zip(rows.keys, rows.values, strict=True):
                assert isinstance(key, ast.Constant)
                yield str(key.value), ast.unparse(part)


def _targets(line: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    return [ast.unparse(target) for target in targets]


def _home(tables: ast.Module, part: str) -> str:
    """The file in the package from which the tables import a class or function."""
    return next(
        str(line.module).removeprefix("regard.").replace(".", "/") + ".py"
        for line in tables.body
        if isinstance(line, ast.ImportFrom) and part in (alias.name for alias in line.names)
    )


def _read(kind: str, name: str, file: str, part: str) -> Mechanism:
    lines = (ast.get_docstring(_parsed(file), clean=False) or "").strip().splitlines()

    def after(mark: str) -> str:
        return next(line.removeprefix(mark) for line in lines if line.startswith(mark))

    return Mechanism(
        kind=kind,
        name=name,
        summary=lines[0],
        equation="\n".join(line.strip() for line in lines if line.startswith("    ")),
        paper=after("Paper: "),
        cost=after("Cost: "),
        settings=_settings(_parsed(file), part),
        file=f"regard/{file}",
        part=part,
    )


def _settings(module: ast.Module, part: str) -> dict[str, str]:
    """The parameters of a function, or of a class's `__init__`, without the sizes."""
    (found,) = (node for node in module.body if getattr(node, "name", None) == part)
    if isinstance(found, ast.ClassDef):
        inside = (node for node in found.body if getattr(node, "name", None) == "__init__")
        found = next(inside, found)
    if not isinstance(found, ast.FunctionDef):
        return {}
    known, given = found.args.args, found.args.defaults
    defaults = [*[None] * (len(known) - len(given)), *given, *found.args.kw_defaults]
    return {
        parameter.arg: "required" if default is None else repr(ast.literal_eval(default))
        for parameter, default in zip([*known, *found.args.kwonlyargs], defaults, strict=True)
        if parameter.arg not in ("self", "dims")
    }
