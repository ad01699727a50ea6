"""How tests find their way about the page."""

from urllib.parse import urlencode

VIEWS = (
    "translate", "worked", "mechanisms", "captions", "atlas", "gold", "compare", "training"
)  # fmt: skip
TEXT = "a dog ate"
TARGET = "dog the food"
"""An answer that is given, so that nothing has to be searched for."""
WHOLE = {
    "translate": ".map canvas",
    "worked": ".stage input",
    "mechanisms": ".side-by-side canvas",
    "captions": ".photo canvas",
    "atlas": ".far",
    "gold": ".map canvas",
    "compare": ".pane:nth-child(2) canvas",
    "training": ".chart svg",
}
"""What is there once a view is whole."""


def open_view(page, view, **wishes):
    """Open a view and wait until it is whole."""
    asked = urlencode({"text": TEXT, "target": TARGET, **wishes})
    page.goto("about:blank")
    page.goto(f"/#/{view}?{asked}")
    page.wait_for_selector(WHOLE[view])
    page.wait_for_load_state("networkidle")


def table(page, where=".numbers"):
    """The numbers of the first table below a picture."""
    rows = page.locator(f"{where} tbody tr")
    return page.evaluate(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) =>"
        " Number(cell.textContent)))",
        rows.element_handles(),
    )
