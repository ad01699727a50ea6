"""The catalogue: every mechanism, read from its own file's docstring.

A mechanism's docstring has one form: a sentence, the indented equation, a line `Paper: …` and a
line `Cost: …`. It is written once, there; the list, the pages and the studio all read it here.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.attention import HEADS, MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS, Chain
from regard.choices import find
from regard.layers import LAYERS
from regard.positions import POSITIONS

KINDS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "score": SCORES,
    "relation": RELATIONS,
    "pattern": PATTERNS,
    "selection": SELECTIONS,
    "memory": MEMORIES,
    "heads": HEADS,
    "positions": POSITIONS,
    "layer": LAYERS,
}

CHAINS: Mapping[str, Callable[..., Chain]] = {
    "score": lambda link: Chain(link),
    "relation": lambda link: Chain(relation=link),
    "pattern": lambda link: Chain(pattern=link),
    "selection": lambda link: Chain(select=link),
    "memory": lambda link: Chain(memory=link),
}
"""For each kind of link, the plainest chain with such a link in it."""


@dataclass(frozen=True)
class Mechanism:
    """What the project says about one mechanism."""

    kind: str
    name: str
    part: Callable[..., Any]
    summary: str
    equation: str
    paper: str
    cost: str

    @property
    def settings(self) -> dict[str, str]:
        """Its own settings and their defaults, as they are written in a recipe."""
        known = inspect.signature(self.part).parameters
        return {name: _default(known[name]) for name in known if name != "dims"}

    @property
    def one_line(self) -> str:
        """The equation without line breaks."""
        return ";  ".join(self.equation.splitlines())

    @property
    def file(self) -> str:
        """The file that holds it, from the package's folder on."""
        return self.part.__module__.replace(".", "/") + ".py"


def mechanisms() -> list[Mechanism]:
    """Every mechanism, kind by kind, in teaching order."""
    return [
        _read(kind, name, part) for kind, table in KINDS.items() for name, part in table.items()
    ]


def mechanism(name: str) -> Mechanism:
    """One mechanism by its name, or an error that names the nearest."""
    return find(name, {entry.name: entry for entry in mechanisms()})


def _read(kind: str, name: str, part: Callable[..., Any]) -> Mechanism:
    lines = (sys.modules[part.__module__].__doc__ or "").strip().splitlines()
    equation = [line.strip() for line in lines if line.startswith("    ")]
    return Mechanism(
        kind=kind,
        name=name,
        part=part,
        summary=lines[0],
        equation="\n".join(equation),
        paper=_after("Paper: ", lines),
        cost=_after("Cost: ", lines),
    )


def _after(mark: str, lines: list[str]) -> str:
    return next(line.removeprefix(mark) for line in lines if line.startswith(mark))


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "required"
    return repr(parameter.default)
