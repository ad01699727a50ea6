"""Link tables: links by name, those of this package and those that a user adds.

A name that a table lacks is looked up among installed packages, by their entry points:

    [project.entry-points."regard.parts"]
    distance = "my_package.scores:DistanceScore"

No code is loaded for any other reason, and whatever is loaded is told.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple, final

from regard.errors import SettingError

GROUP = "regard.parts"
"""The entry points by which an installed package offers parts."""
REMEDY = " One of your own comes with --import FILE (in Python regard.import_parts)."
"""What to do about a name that no table has."""
LOG = logging.getLogger("regard")


class PartOrigin(NamedTuple):
    """Where a part that is not of this package came from."""

    source: str
    """Its file, or its package with the version."""
    sha256: str
    """The hash of its file."""


@final
class LinkTable(dict[str, Any]):
    """The links of one kind by name; `protocol` is what each of them is."""

    remedy = REMEDY

    def __init__(self, protocol: type, rows: Mapping[str, Any]) -> None:
        super().__init__(rows)
        self.protocol = protocol
        self.origins: dict[str, PartOrigin] = {}
        """Of those that are not of this package."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._is_installed(str(name))

    def __missing__(self, name: str) -> Any:
        if self._is_installed(name):
            return self[name]
        raise KeyError(name)

    def add(self, name: str, part: type, origin: PartOrigin) -> None:
        """Add a part under a name, which is told; a name of another origin is refused."""
        held = self.origins.get(name)
        if super().__contains__(name) and (held is None or held.source != origin.source):
            whose = "regard's own" if held is None else f"that of {held.source}"
            raise SettingError(
                f"parts: '{name}' of {origin.source} is {whose} already. Give the class another "
                f'name, or own_name = "…".'
            )
        self[name], self.origins[name] = part, origin
        LOG.warning(
            "parts: '%s' is %s of %s (SHA-256 %s…)",
            name, part.__name__, origin.source, origin.sha256[:12],
        )  # fmt: skip

    def _is_installed(self, name: str) -> bool:
        """Whether an installed package offers such a link; it is then loaded."""
        if (entry := _offered().get(name)) is None:
            return False
        part = _loaded(entry)
        if self.protocol not in part.__mro__:
            return False
        self.add(name, part, _origin(entry, part))
        return True


@final
class JoinedTables(Mapping[str, Any]):
    """Several tables as one, as they are at any time, perhaps without one of their names."""

    remedy = REMEDY

    def __init__(self, *tables: Mapping[str, Any], without: str | None = None) -> None:
        self.tables, self.left_out = tables, without

    def __getitem__(self, name: str) -> Any:
        table = next((one for one in self.tables if name in one), None)
        if table is None or name == self.left_out:
            raise KeyError(name)
        return table[name]

    def __contains__(self, name: object) -> bool:
        return name != self.left_out and any(name in table for table in self.tables)

    def __iter__(self) -> Iterator[str]:
        return (name for table in self.tables for name in table if name != self.left_out)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _offered() -> Mapping[str, EntryPoint]:
    """What installed packages offer; only names are read, and nothing is loaded."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def _loaded(entry: EntryPoint) -> type:
    try:
        part = entry.load()
    except Exception as error:
        raise SettingError(
            f"parts: '{entry.name}' of the installed {_package(entry)} cannot be loaded "
            f"({type(error).__name__}: {error}). Repair that package, or uninstall it."
        ) from error
    if not isinstance(part, type):
        raise SettingError(
            f"parts: '{entry.name}' of the installed {_package(entry)} must be a class, got "
            f"{part!r:.60}. Correct its entry point."
        )
    return part


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _origin(entry: EntryPoint, part: type) -> PartOrigin:
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    mark = sha256(Path(file).read_bytes()).hexdigest() if file else ""
    return PartOrigin(_package(entry), mark)
