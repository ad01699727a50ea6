"""Build the site: `make site` writes it to build/site, and fails on any warning or dead link."""

import re
import shutil
import sys
import time
from pathlib import Path

from sphinx.application import Sphinx

from docs.site import course, reference
from docs.site.links import wrong_links
from docs.site.pages import (
    DOCS,
    ROOT,
    Rewriter,
    file_page,
    home_page,
    repository_pages,
    shelf_page,
    shelves,
)

SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"


def assembled(pictures: Path) -> dict[str, str]:
    """Every page of the site by its path; pictures of the course go into the folder."""
    made, rewriter = {}, Rewriter()
    for path, place in repository_pages():
        made[place] = rewriter.rewrite((ROOT / path).read_text(encoding="utf-8"), path, place)
    made |= dict(reference.pages()) | dict(course.course_pages(pictures))
    made["index.md"] = home_page(made["index.md"], shelves())
    listed = {page for shelf in shelves() for page in shelf.listed(made)}
    if lost := sorted(made.keys() - listed - {"index.md"}):
        raise SystemExit(f"site: on no shelf of docs/site/navigation.toml: {', '.join(lost)}.")
    made |= {shelf.page: shelf_page(shelf, made) for shelf in shelves()}
    return made | {f"files/{path}.md": file_page(path) for path in sorted(rewriter.files)}


def without_empty_headers(page: str) -> str:
    """The page with plain cells where the header of a column is empty, since it heads nothing."""
    return re.sub(r'<th class="(head[^"]*)"><p></p></th>', r'<td class="\1"></td>', page)


def main() -> int:
    """Assemble the pages, let Sphinx make the site, and check its links."""
    began = time.monotonic()
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS / "img", SOURCE / "img")
    pages = assembled(SOURCE / "learn" / "img")
    for place, text in pages.items():
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / place).write_text(text, encoding="utf-8")
    own = Path(__file__).parent
    sphinx = Sphinx(
        SOURCE, own, SITE, ROOT / "build" / "site-doctrees", "html",
        freshenv=True, warningiserror=True, keep_going=True, status=None,
    )  # fmt: skip
    sphinx.build()
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(without_empty_headers(text), encoding="utf-8")
    wrong = wrong_links(SITE)
    for line in wrong:
        print(f"site: {line}", file=sys.stderr)
    seconds = time.monotonic() - began
    print(f"{SITE.relative_to(ROOT)}: {len(pages)} pages in {seconds:.0f} s. Open index.html.")
    return 1 if wrong or sphinx.statuscode else 0


if __name__ == "__main__":
    sys.exit(main())
