"""How tests find their way about the page."""

from urllib.parse import urlencode

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError as TookTooLong

VIEWS = (
    "answer", "worked", "mechanisms", "captions", "atlas", "gold", "compare", "training",
    "course",
)  # fmt: skip
TEXT = "a dog ate"
TARGET = "dog the food"
"""An answer that is given, so that nothing has to be searched for."""
WHOLE = {
    "answer": ".map canvas",
    "worked": ".stage input",
    "mechanisms": ".side-by-side canvas",
    "captions": ".photo canvas",
    "atlas": ".far",
    "gold": ".map canvas",
    "compare": ".pane:nth-child(2) canvas",
    "training": ".chart svg",
    "course": ".chapter h2",
}
"""What is there once a view is whole."""
ELSEWHERE = {"training": "worked"}
"""Where one comes from, so that a view is made anew; others are come to from the training view."""
COUNTING = """
  const fetched = window.fetch;
  let asked = 0;
  window.still = 0;
  window.fetch = async (where, how) => {
    asked += 1;
    try {
      const answer = await fetched(where, how);
      await answer.clone().arrayBuffer();
      return answer;
    } finally {
      asked -= 1;
      window.still = 0;
    }
  };
  const frame = () => {
    window.still = asked ? 0 : window.still + 1;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
"""
"""For how many frames the page has not waited for any answer."""
FRAMES = 6
"""After which a view is at rest: what an answer leads to is asked two frames later."""


def open_view(page, view, **wishes):
    """Open a view, from another one where the studio is open already, and wait until it rests."""
    asked = urlencode({"text": TEXT, "target": TARGET, "unit": "words", **wishes})
    if page.url == "about:blank":
        page.goto(f"/#/{view}?{asked}", wait_until="commit")
    else:
        _go(page, ELSEWHERE.get(view, "training"), "")
        _go(page, view, asked)
    page.wait_for_selector(WHOLE[view])
    settle(page)


def _go(page, view, asked):
    page.evaluate("(address) => { location.hash = address; }", f"/{view}?{asked}")
    page.wait_for_selector(WHOLE[view])


def settle(page):
    """Wait until nothing is on its way and nothing is about to be drawn."""
    page.evaluate("window.still = 0")
    page.wait_for_function(
        "(frames) => window.still > frames && [...document.images].every((one) => one.complete)",
        arg=FRAMES,
    )


def hear(page, selector, pattern):
    """The groups of a pattern in what is said there, once it is: answers come after actions."""
    found = """([selector, pattern]) =>
        document.querySelector(selector)?.innerText.match(pattern)?.slice(1)"""
    try:
        return page.wait_for_function(found, arg=[selector, pattern]).json_value()
    except TookTooLong:
        said = page.locator(selector).all_inner_texts()
        raise AssertionError(f"{pattern} is not in {selector}: {said}") from None


def table(page, where=".numbers"):
    """The numbers of the first table below a picture."""
    rows = page.locator(f"{where} tbody tr")
    return page.evaluate(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) =>"
        " Number(cell.textContent)))",
        rows.element_handles(),
    )


def violations(page):
    """What axe finds wrong, and where."""
    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
