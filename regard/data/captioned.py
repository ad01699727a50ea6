"""Captioned pictures, one line after another → examples, one picture after another.

Of the pictures that are wanted, lines that stand together become one example, and every picture
is looked for; one that comes back after others, or is not there, is a broken row.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from regard.choices import find
from regard.data.addresses import check_is_there
from regard.data.examples import Example
from regard.data.files import Broken, lines
from regard.data.normalisation import NORMALISERS
from regard.data.rows import Row
from regard.errors import DataError


class Captioned(NamedTuple):
    """What one line says: a picture's name, captions of it, and the split it is in, if any."""

    name: str
    captions: tuple[str, ...]
    split: Any = None


@runtime_checkable
class Wanted(Protocol):
    """Which pictures are asked for."""

    def takes(self, line: Captioned) -> bool:
        """Whether this one is among them."""
        ...

    def complaint(self) -> str | None:
        """What is wrong when all lines were seen; None if nothing is."""
        ...


@dataclass
class SplitWanted:
    """Pictures of one split, of several (train+restval), or all of them (None)."""

    split: str | None
    met: dict[str, None] = field(default_factory=dict)
    """The splits that were seen."""

    def takes(self, line: Captioned) -> bool:
        """Whether the line is in a split that is asked for."""
        if self.split is None:
            return True
        if not isinstance(line.split, str):
            raise DataError(
                f"'{line.name}' is in no split, but split = '{self.split}' was asked for. Give "
                "every picture one, or ask for none."
            )
        self.met[line.split] = None
        return line.split in self.split.split("+")

    def complaint(self) -> str | None:
        """Name a split that no picture is in."""
        absent = [name for name in (self.split or "").split("+") if name and name not in self.met]
        known = ", ".join(self.met) or "no picture at all"
        return f"there is no picture of split '{absent[0]}', only of {known}." if absent else None


@dataclass
class NamesWanted:
    """Pictures whose names a file lists, or all of them (None)."""

    path: Path | None
    missing: dict[str, int] = field(default_factory=dict)
    """The line of each name that was not met yet."""

    def __post_init__(self) -> None:
        if self.path is not None:
            named = ((number, name.strip()) for number, name in enumerate(lines(self.path), 1))
            self.missing = {name: number for number, name in named if name}
        self.listed = frozenset(self.missing)

    def takes(self, line: Captioned) -> bool:
        """Whether the file lists the line's picture."""
        self.missing.pop(line.name, None)
        return self.path is None or line.name in self.listed

    def complaint(self) -> str | None:
        """Name the first picture that is listed and has no caption."""
        if not self.missing:
            return None
        name, number = next(iter(self.missing.items()))
        return (
            f"'{name}' in line {number} of '{self.path}' has no caption ({len(self.missing)} such "
            "names). Take it off that list, or caption it."
        )


def gathered(
    path: Path,
    found: Iterable[tuple[int, Captioned | Broken]],
    pictures: Path,
    wanted: Wanted,
    *,
    unit: str = "line",
) -> Iterator[Row]:
    """One row for each picture that is wanted, numbered by its first line.

    Args:
        path: the file that the lines are from.
        found: the lines with their numbers.
        pictures: the folder or zip with the pictures.
        wanted: which pictures to take.
        unit: what is numbered.
    """
    firsts: dict[str, int] = {}
    for number, group in _together(_chosen(path, found, wanted, unit)):
        if isinstance(group, Broken):
            yield Row(path, number, (group,))
            continue
        address = f"{pictures}/{group.name}"
        try:
            first = firsts.setdefault(group.name, number)
            if first != number:
                raise DataError(
                    f"'{group.name}' stood in {unit} {first} already. Put the lines of a picture "
                    "together."
                )
            check_is_there(address)
        except DataError as error:
            yield Row(path, number, (_refused(path, unit, number, str(error)),))
        else:
            yield Row(path, number, Example(address, group.captions))
    if complaint := wanted.complaint():
        said = f"captions: '{path}': {complaint}"
        yield Row(path, 1, (Broken("format", path, 1, said),))


def captions_in_form(name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
    """Examples with their captions in the form of this name; as they are without one."""
    if name is None:
        return iter(examples)
    form = find(name, NORMALISERS)
    return (
        replace(example, targets=tuple(form(target).text for target in example.targets))
        for example in examples
    )


def _chosen(
    path: Path, found: Iterable[tuple[int, Captioned | Broken]], wanted: Wanted, unit: str
) -> Iterator[tuple[int, Captioned | Broken]]:
    """The lines that are wanted, and those that cannot be read."""
    for number, line in found:
        try:
            if isinstance(line, Broken) or wanted.takes(line):
                yield number, line
        except DataError as error:
            yield number, _refused(path, unit, number, str(error))


def _together(
    chosen: Iterable[tuple[int, Captioned | Broken]],
) -> Iterator[tuple[int, Captioned | Broken]]:
    """Neighbours that speak of one picture as one, under the number of the first."""
    for _, group in groupby(chosen, lambda one: getattr(one[1], "name", one[0])):
        (number, first), *others = group
        if isinstance(first, Broken):
            yield number, first
            continue
        more = [line.captions for _, line in others if isinstance(line, Captioned)]
        yield number, first._replace(captions=sum(more, first.captions))


def _refused(path: Path, unit: str, number: int, why: str) -> Broken:
    return Broken("format", path, number, f"captions: '{path}', {unit} {number}: {why}")
