"""Pictures of the studio for its page: every view of real runs, light and dark.

python docs/studio_pictures.py TEXT_RUN OTHER_TEXT_RUN CAPTION_RUN
"""

import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from regard.data import Example
from regard.evaluating import Gold
from regard.serving import build_app, open_runs
from regard.serving.running import running
from regard.serving.shelf import GoldPairs

OUT = Path(__file__).parent / "img" / "studio"
TEXT = "Mittwoch, 9. Mai 2029"
LONG = " ".join(["Mittwoch, 9. Mai 2029", "dom., 4 de fev. de 2080", "mer. 12 janv. 2056"] * 6)
GOLD = GoldPairs(
    (Example("9. Mai 2029", ("2029-05-09",)), Example("4 de fev. de 2080", ("2080-02-04",))),
    (Gold(frozenset({(0, 0), (1, 0), (2, 0)})), Gold(frozenset({(0, 0), (2, 0), (4, 0)}))),
)
VIEWS = {
    "translate": (".map canvas", {"text": TEXT, "pin": "q5"}),
    "heads": (".heads canvas", {"text": TEXT, "kind": "encoder", "picture": "heads"}),
    "links": (".links path", {"text": TEXT, "picture": "links", "pin": "q5"}),
    "worked": (".stage input", {"scaled": "on", "edits": "X.0.1.2~4"}),
    "mechanisms": (".side-by-side canvas", {"text": TEXT, "kind": "encoder", "layer": 2}),
    "captions": (".photo canvas", {"smooth": "on"}),
    "atlas": (".far", {"text": LONG, "target": "2029-05-09", "kind": "encoder", "layer": 2}),
    "gold": (".map canvas", {}),
    "compare": (".pane:nth-child(2) canvas", {"text": TEXT}),
    "training": (".chart svg", {}),
}
PLACES = {"heads": "translate", "links": "translate"}
TALLEST = 1800


def main() -> None:
    text, other, captions = map(Path, sys.argv[1:])
    OUT.mkdir(parents=True, exist_ok=True)
    shelf = open_runs([text, other, captions], device="cpu", gold=GOLD)
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with running(build_app(shelf)) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            _draw(browser, address, theme)
        browser.close()


def _draw(browser: Browser, address: str, theme: str) -> None:
    context = browser.new_context(
        viewport={"width": 1000, "height": 800},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    for name, (whole, wishes) in VIEWS.items():
        page.goto("about:blank")
        page.goto(f"{address}#/{PLACES.get(name, name)}?{urlencode(wishes)}")
        page.wait_for_selector(whole)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(500)
        tall = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
        clip = {"x": 0, "y": 0, "width": 1000, "height": tall}
        shot = page.screenshot(full_page=True, clip=clip)
        picture = Image.open(BytesIO(shot)).convert("RGB")
        picture.save(OUT / f"{name}-{theme}.png", optimize=True)
        print(f"{name} {theme}")
    context.close()


if __name__ == "__main__":
    main()
