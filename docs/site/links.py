"""Every link of a built site leads somewhere, and nothing is fetched from elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""The attribute whose address a browser fetches by itself."""


@dataclass
class _Page(HTMLParser):
    """The places on a page, and the addresses that it names."""

    places: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember names and addresses."""
        held = {name: value for name, value in attrs if value}
        self.places |= {held[name] for name in ("id", "name") if name in held}
        if tag == "a" and "href" in held:
            self.links.append(held["href"])
        if FETCHED.get(tag) in held:
            self.fetched.append(held[FETCHED[tag]])


def wrong_links(site: Path) -> list[str]:
    """What is wrong with the links of a site, a line for each."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    return [line for path, page in pages.items() for line in _wrong(path, page, pages, site)]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _wrong(path: Path, page: _Page, pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    name = path.relative_to(site.resolve())
    for address in page.fetched:
        if urlsplit(address).netloc:
            yield f"{name} fetches {address}"
    for address in (*page.links, *page.fetched):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"{name} leads to {address}, which is not there"
        elif parts.fragment and target in pages and parts.fragment not in pages[target].places:
            yield f"{name} leads to {address}, and that page has no such place"
