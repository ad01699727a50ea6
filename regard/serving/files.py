"""The files of the page, with the types that browsers insist on; nothing outside its folder."""

from collections.abc import Mapping
from pathlib import Path

from regard.errors import UnknownChoice

FOLDER = Path(__file__).parent / "page"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
"""Written here, since some systems think that .js is plain text, and modules then fail."""


def page_files() -> dict[str, Path]:
    """Every file by its address, "index.html" among them."""
    return {
        path.relative_to(FOLDER).as_posix(): path
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and path.suffix in TYPES
    }


def read_file(files: Mapping[str, Path], address: str) -> tuple[bytes, str]:
    """The content and the type of a file; only those of the page have an address."""
    path = files.get(address or "index.html")
    if path is None:
        raise UnknownChoice(f"page: there is no '{address}' here. Open the address without a path.")
    return path.read_bytes(), TYPES[path.suffix]
