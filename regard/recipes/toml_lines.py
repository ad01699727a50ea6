"""Where a key stands in a TOML file; `tomllib` does not say."""

import re

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""^\s*([A-Za-z0-9_\-."']+)\s*=""")


def key_lines(text: str) -> dict[str, int]:
    r"""The line number of every key, by its full dotted name; inline tables count as one line.

    >>> key_lines("[training]\nsteps = 3\n")
    {'training': 1, 'training.steps': 2}
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _plain(header[1])
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            name = _plain(key[1])
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found


def line_of(path: str, lines: dict[str, int]) -> int | None:
    """The line of a key, or of the nearest thing around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
