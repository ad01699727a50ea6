"""The built site in Chromium, without a network: it reads well, searches, and asks for nothing."""

import os
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.site

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = (
    "index.html",
    "start.html",
    "demo.html",
    "shelves/learn.html",
    "learn/en/05_local_windows.html",
    "learn/zh/01_three_words.html",
    "mechanisms/shaw.html",
    "reference/recipe.html",
    "reference/python/regard.attention.html",
    "search.html?q=length+penalty",
)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    assert path, "no chromium: install it (apt-get install chromium)"
    return {**browser_type_launch_args, "executable_path": path, "args": ["--no-sandbox"]}


@pytest.fixture
def opened(browser):
    """Opens a page of the folder, offline, and gives what went wrong with it."""
    assert (SITE / "index.html").exists(), "make site builds the site first"
    contexts = []

    def open_page(name, *, width=1280, scheme="light"):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        page, wrong = context.new_page(), []
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith("http") and wrong.append(asked.url))
        page.goto(f"file://{SITE}/{name}")
        return page, wrong

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [360, 1280, 1920])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_asks_for_nothing(opened, name, width):
    page, wrong = opened(name, width=width)
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0
    assert page.locator("h1").count() == 1
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(opened, name, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page, _ = opened(name, width=width, scheme=scheme)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []


def test_search_finds_the_pages_about_the_length_penalty(opened):
    page, wrong = opened("index.html")
    page.get_by_placeholder("Search").first.fill("length penalty")
    page.keyboard.press("Enter")
    # results come one by one
    page.locator("#search-results a[href*='predicting.html']").wait_for()
    assert wrong == []


def test_pictures_and_outputs_of_a_chapter_are_there(opened):
    page, _ = opened("learn/en/08_transformer.html")
    assert page.get_by_text("100 % of 200").count() == 1
    widths = page.locator("article img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert widths
    assert all(widths)
