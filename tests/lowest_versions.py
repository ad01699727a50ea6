"""The lowest versions that pyproject.toml allows, as arguments for pip.

python tests/lowest_versions.py [EXTRA …]
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def lowest(*extras: str) -> list[str]:
    """A name and a version for each dependency of the package and of these extras."""
    found: dict[str, str] = {}
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    while wanted:
        one = wanted.pop()
        if inner := re.fullmatch(r"regard\[(.+)\]", one):
            for extra in inner[1].split(","):
                wanted += PROJECT["optional-dependencies"][extra]
        else:
            name, _, version = one.partition(">=")
            found[name] = version
    return sorted(f"{name}=={version}" for name, version in found.items())


if __name__ == "__main__":
    print(" ".join(lowest(*sys.argv[1:])))
