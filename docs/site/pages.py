"""The pages of the repository → pages of the site, whose links stay inside it.

Where a link leads to a source file, the site gets a page with that file; where it leads to a
folder, a list of its files.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAVIGATION = Path(__file__).with_name("navigation.toml")
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".js": "javascript", ".css": "css"}

LINK = re.compile(r"(!?\[[^\]\n]*\])\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
OUTSIDE = "---\norphan: true\nnosearch: true\n---\n\n"
"""The head of a page that stands on no shelf and is not searched."""


@dataclass(frozen=True)
class Shelf:
    """A shelf of the site: its page lists the pages on it."""

    name: str
    title: str
    says: str
    pages: Sequence[str]

    @property
    def page(self) -> str:
        """The page of the shelf itself."""
        return f"shelves/{self.name}.md"

    def listed(self, made: Mapping[str, str]) -> list[str]:
        """The pages on the shelf, those of a folder in the order of their names."""
        return [page for pattern in self.pages for page in _matching(pattern, made)]


def shelves() -> list[Shelf]:
    """The shelves that the navigation file names."""
    return [Shelf(**each) for each in tomllib.loads(NAVIGATION.read_text())["shelf"]]


def _matching(pattern: str, made: Mapping[str, str]) -> list[str]:
    if not pattern.endswith("/*"):
        return [pattern]
    folder = PurePosixPath(pattern).parent
    return sorted(page for page in made if PurePosixPath(page).parent == folder)


@dataclass
class Rewriter:
    """Leads the links of the repository's pages to pages of the site."""

    files: set[str] = field(default_factory=set)
    """Source files and folders that some page leads to."""

    def rewrite(self, text: str, repository_path: str, site_path: str) -> str:
        """The same page, its links led to the site's pages."""
        folder = (ROOT / repository_path).parent

        def led(found: re.Match[str]) -> str:
            label, target = found.groups()
            place, mark, anchor = target.partition("#")
            if not place or "://" in target or target.startswith("mailto:"):
                return found[0]
            path = (folder / place).resolve().relative_to(ROOT).as_posix()
            leads = os.path.relpath(self._site_path(path), PurePosixPath(site_path).parent)
            return f"{label}({PurePosixPath(leads)}{mark}{anchor})"

        parts = FENCE.split(text)
        return "".join(
            part if number % 2 and part.startswith("```") else LINK.sub(led, part)
            for number, part in enumerate(_joined(parts))
        )

    def _site_path(self, path: str) -> str:
        if path in MOVED:
            return MOVED[path]
        if path == "docs/decisions":
            return "shelves/decisions.md"
        if path.startswith("docs/") and (ROOT / path).suffix in (".md", ".png", ".svg"):
            return path.removeprefix("docs/")
        self.files.add(path)
        return f"files/{path}.md"


def _joined(parts: Sequence[str]) -> list[str]:
    """Text and fences in turn; code inside a line belongs to the text, which may be a link's."""
    joined = [""]
    for part in parts:
        if part.startswith("```"):
            joined += [part, ""]
        else:
            joined[-1] += part
    return joined


def repository_pages() -> Iterator[tuple[str, str]]:
    """Every page of the repository: its path there and its path on the site."""
    for page in sorted(DOCS.rglob("*.md")):
        path = page.relative_to(ROOT).as_posix()
        yield path, path.removeprefix("docs/")
    yield from MOVED.items()


def file_page(path: str) -> str:
    """A page that shows a file, or the files of a folder."""
    held = ROOT / path
    if held.is_dir():
        names = "\n".join(f"- `{one.name}`" for one in sorted(held.iterdir()) if one.suffix)
        return f"{OUTSIDE}# {path}\n\n{names}\n"
    text = held.read_text(encoding="utf-8")
    return f"{OUTSIDE}# {path}\n\n````{LANGUAGES.get(held.suffix, 'text')}\n{text}\n````\n"


def title_of(text: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def promise_of(text: str) -> str:
    """What a page says that the reader can do after it, or its first sentence."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).partition("\n")[2]
    paragraphs = (" ".join(part.split()) for part in body.split("\n\n"))
    first = next((part for part in paragraphs if re.match(r"[A-Z\u4e00-\u9fff]", part)), "")
    sentence = re.split(r"(?<=[.。!?:])\s|(?<=。)", first)[0].rstrip(":")
    return re.sub(r"^After this (page|chapter) ", "", re.sub(LINK, lambda m: m[1][1:-1], sentence))


def shelf_page(shelf: Shelf, made: Mapping[str, str]) -> str:
    """A shelf's page: each page with what it promises, and the tree for the sidebar."""
    pages = shelf.listed(made)
    lines = [f"# {shelf.title}", "", shelf.says, ""]
    for page in pages:
        text = made[page]
        lines.append(f"- [{title_of(text)}](../{page}): {promise_of(text)}")
    tree = "\n".join(f"/{page.removesuffix('.md')}" for page in pages)
    return "\n".join(lines) + f"\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def home_page(readme: str, all_shelves: Sequence[Shelf]) -> str:
    """The README with the shelves behind it."""
    listed = "\n".join(f"- [{one.title}]({one.page}): {one.says}" for one in all_shelves)
    tree = "\n".join(one.page.removesuffix(".md") for one in all_shelves)
    return f"{readme}\n## All shelves\n\n{listed}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
