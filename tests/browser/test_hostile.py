"""Names that mean no good stay names, in every view and whatever they are the name of.

The server's policy lets no script of theirs run; what is looked for here is the element that such
a name would become if the page took it for more than text.
"""

import pytest
from playwright.sync_api import expect

from regard.data import Example
from regard.evaluating import Gold
from regard.serving import build_app
from regard.serving.registry import GoldPairs, Registry, open_runs
from regard.serving.server import running
from tests.browser.looking import VIEWS, open_view
from tests.factories import make_run
from tests.inspecting.captions_by_hand import captioned, grey_picture, random_maps, written

pytestmark = pytest.mark.browser

WORD = "<b/id=caught>"
"""One word, one piece, and an element with a name of its own wherever it is read as HTML."""
NAME = "<b id=caught>"
TEXT = f"a {WORD} dog"
ADDRESSED = (
    "kind", "layer", "head", "pin", "scale", "shown", "unit", "picture", "edits", "temperature",
    "mask", "find", "far", "atlasScale", "map", "row", "drawing", "overlay", "opacity", "share",
    "difference", "theme", "record", "answer", "pair", "example", "answerA", "answerB",
)  # fmt: skip
"""What an address may ask for; a link from somebody else may say anything."""


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    runs = [make_run(folder / name, TEXT, kind="words") for name in (NAME, "other")]
    for run in runs:
        (run / "metrics.jsonl").write_text('{"step": 1, "train_loss": 4.0}\n')
    gold = GoldPairs((Example(TEXT, (TEXT,)),) * 2, (Gold(frozenset({(0, 1)})),) * 2)
    texts = open_runs(runs, device="cpu", gold=gold)
    caption = captioned(
        [list(random_maps(2, 4, 16))], written("a", WORD, "dog"), picture=grey_picture(NAME)
    )
    return Registry(texts.runs, gold, saved_captions={NAME: caption})


@pytest.fixture(scope="session")
def base_url(registry):
    with running(build_app(registry)) as address:
        yield address.rstrip("/")


def _stir(page):
    """Open what is folded, walk through every map, put every word in focus."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for one in page.locator("main [role=application]").all():
        one.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    for one in page.locator("main .line button").all():
        one.focus()


def _caught(page):
    return page.locator("#caught, [id='caught'], img[src=x]").count()


@pytest.mark.parametrize("view", VIEWS)
def test_names_that_are_html_are_text_in_every_view(page, view):
    numbers = "model" if view == "worked" else "on"
    open_view(page, view, run=NAME, text=TEXT, target=TEXT, numbers=numbers, far=0)
    _stir(page)
    # words stand in the view, the run's name below it
    shown = dict.fromkeys(("training", "course"), ("footer", NAME)).get(view, ("main", WORD))
    expect(page.locator(shown[0])).to_contain_text(shown[1])
    assert _caught(page) == 0


@pytest.mark.parametrize("picture", ["links", "heads"])
def test_so_they_are_in_links_and_in_the_grid_of_heads(page, picture):
    open_view(page, "answer", run=NAME, text=TEXT, target=TEXT)
    page.get_by_role("button", name={"links": "Links", "heads": "Every head"}[picture]).click()
    _stir(page)
    expect(page.locator("main")).to_contain_text(WORD)
    assert _caught(page) == 0


@pytest.mark.parametrize("view", VIEWS)
def test_an_address_that_asks_for_html_shows_the_view_and_none_of_it(page, view):
    wishes = {"text": TEXT, "target": TEXT, **dict.fromkeys(ADDRESSED, NAME)}
    open_view(page, view, **wishes)
    assert _caught(page) == 0


def test_a_refusal_says_it_as_text(page, faults):
    page.goto(f"/#/answer?text={'%3Cb%20id%3Dcaught%3E' * 80}")
    expect(page.get_by_role("alert")).to_contain_text("at most")
    assert _caught(page) == 0
    assert all("413" in fault for fault in faults)
    faults.clear()
