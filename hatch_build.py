"""The page and the addresses of the package, as an index of packages shows them.

The README leads to files beside it, which an index does not have. A release on GitHub knows where
they are: its links become absolute, those to pictures too. A build elsewhere knows no address, so
it leaves pictures out and keeps the words of links.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class PackagePage(MetadataHookInterface):
    """Gives hatchling the README and the addresses of this build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set what pyproject.toml calls dynamic."""
        address = repository_address()
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = with_absolute_links(text, address, os.environ.get("GITHUB_REF_NAME", "main"))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = {} if address is None else addresses(address)


def repository_address() -> str | None:
    """Where the repository is, if the build runs where that is known."""
    server, name = (os.environ.get(f"GITHUB_{key}") for key in ("SERVER_URL", "REPOSITORY"))
    return f"{server}/{name}" if server and name else None


def addresses(repository: str) -> dict[str, str]:
    """The addresses that the page of the package lists."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/start.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def with_absolute_links(text: str, repository: str | None, ref: str) -> str:
    """A page whose links to files of the repository hold anywhere."""

    def absolute(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        if repository is None:
            return "" if mark else words
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{ref}/{target})"

    return LINK.sub(absolute, text)
