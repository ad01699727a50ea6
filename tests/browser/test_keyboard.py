"""Every view without a mouse: a control is changed, a cell is found, pinned and said aloud."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import VIEWS, WHOLE, open_view, settle

pytestmark = pytest.mark.browser

FAR = 120
"""The most steps that anything may be away from the beginning of a view."""


@pytest.fixture
def page(fresh):
    """Where Tab goes on from depends on what was touched last: nothing was."""
    return fresh


def _come(page, view):
    """From another view by its number, and past the navigation by the skip link."""
    open_view(page, "worked" if view == "training" else "training", run="first")
    page.keyboard.press(str(VIEWS.index(view) + 1))
    page.wait_for_selector(WHOLE[view])
    settle(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def _reach(page, selector, back=False):
    """Go on with Tab until what is wanted has the focus, as a ring that can be seen."""
    for _ in range(FAR):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate("(wish) => document.activeElement.matches(wish)", selector):
            ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert ring != "none", f"{selector} does not show that it has the focus"
            return
    raise AssertionError(f"{selector} was not reached in {FAR} steps")


def _hears(page, pattern, *, times=1):
    """Wait until what a screen reader is told without being asked holds this, so many times."""
    for _ in range(400):
        live = page.locator("[role=status], [aria-live=polite]").all_inner_texts()
        said = "\n".join(text for text in live if text.strip())
        if len(re.findall(pattern, said)) >= times:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{pattern} is not in: {said}")


def _select(label):
    """A choice by its words; label:has-text would find those that only begin so."""
    return f"label.{label} select"


def _translate(page):
    _mark_labels(page)
    _reach(page, _select("layer"))
    page.keyboard.press("ArrowUp")
    expect(page.locator(".what")).to_contain_text("layer 2")
    _reach(page, ".cells")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    _hears(page, r"query 2 .* → key 2 .*: 0\.\d{4}")
    page.keyboard.press("Enter")
    expect(page.locator(".line button[aria-pressed=true]")).to_have_count(1)
    page.wait_for_url("**pin=q2**")
    word = page.locator(".line button[aria-pressed=true]").inner_text()
    _hears(page, rf"“\W?{re.escape(word)}\W?” looks at")
    page.keyboard.press("Escape")
    expect(page.locator(".line button[aria-pressed=true]")).to_have_count(0)


def _worked(page):
    _reach(page, "[data-name='X.0.0.0']")
    before = page.locator("[data-name='out.0.0.0']").get_attribute("data-value")
    page.keyboard.type("7")
    _hears(page, "X")
    page.keyboard.press("Enter")
    expect(page.locator("[data-name='X.0.0.0']")).to_have_attribute("data-value", "7")
    expect(page.locator("[data-name='out.0.0.0']")).not_to_have_attribute("data-value", before)
    page.locator("main").focus()
    _reach(page, "input[type=checkbox]")
    page.keyboard.press("Space")
    page.wait_for_url("**scaled=on**")


def _mechanisms(page):
    _mark_labels(page)
    _reach(page, _select("head"))
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**head=2**")
    settle(page)
    _reach(page, ".side-by-side .cells")
    page.keyboard.press("ArrowDown")
    _hears(page, r"model 0\.\d{4}, scaled_dot 0\.\d{4}")
    # one cell for all maps
    n_maps = page.locator(".side-by-side .cells").count()
    expect(page.locator(".side-by-side .cross.row")).to_have_count(n_maps)


def _captions(page):
    _mark_labels(page)
    _reach(page, _select("overlay"))
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**overlay=spotlight**")
    _reach(page, "main [role=application]")
    page.keyboard.press("ArrowDown")
    _hears(page, r"Row 2, column 1 is looked at by .* 0\.\d{4}")
    _reach(page, "[aria-label='next word']")
    page.keyboard.press("Enter")
    page.wait_for_url("**pin=q2**")
    _hears(page, r"looks most at row \d+, column \d+")


def _atlas(page):
    _mark_labels(page)
    _reach(page, _select("head"))
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**head=2**")
    settle(page)
    _reach(page, ".atlas [role=application]")
    canvas = page.locator(".atlas canvas").first
    whole = canvas.get_attribute("data-view")
    page.keyboard.press("+")
    expect(canvas).not_to_have_attribute("data-view", whole)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text(re.compile(r"query \d+ .* → key \d+"))
    page.keyboard.press("Enter")
    expect(page.locator(".snippets")).to_contain_text("query")
    page.keyboard.press("Escape")
    expect(page.locator(".snippets")).to_have_count(0)


def _gold(page):
    _reach(page, ".rates button")
    page.keyboard.press("Enter")
    page.wait_for_url("**layer=1**")
    expect(page.locator(".rates button[aria-pressed=true]")).to_have_count(1)
    _reach(page, ".cells")
    page.keyboard.press("End")
    _hears(page, r"query 1 .* → key 3 .*: 0\.\d{4}")
    _hears(page, "error rate")


def _compare(page):
    _mark_labels(page)
    _reach(page, _select("layer"))
    page.keyboard.press("ArrowUp")
    page.wait_for_url("**layer=2**")
    settle(page)
    _reach(page, ".cells")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**pin=q2**")
    _hears(page, r"query 2 ", times=2)
    expect(page.locator(".pane .readout").filter(has_text="looks at")).to_have_count(2)


def _training(page):
    _reach(page, "summary")
    page.keyboard.press("Enter")
    table = page.locator("details[open] table").first
    expect(table).to_be_visible()
    expect(table).to_contain_text("4")
    # a table that may be wide can be scrolled by keys too
    _reach(page, "[role=region]")


def _course(page):
    _mark_labels(page)
    _reach(page, _select("chapter"))
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**chapter=2**")
    expect(page.locator(".chapter h2")).to_contain_text("2 ·")
    _reach(page, "button.main")
    page.keyboard.press("Enter")
    _hears(page, "below each piece of code")
    expect(page.locator(".printed").first).to_contain_text("1.732")


def _mark_labels(page):
    """Give every label a class of its words, so that a choice can be waited for by name."""
    page.evaluate(
        "document.querySelectorAll('label').forEach((one) => {"
        " const said = one.firstChild?.textContent?.trim().replace(/\\W+/g, '-');"
        " if (said) one.classList.add(said); })"
    )


OPERATE = {
    "answer": _translate, "worked": _worked, "mechanisms": _mechanisms, "captions": _captions,
    "atlas": _atlas, "gold": _gold, "compare": _compare, "training": _training,
    "course": _course,
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_operated_by_keyboard_alone(page, view):
    _come(page, view)
    OPERATE[view](page)


def test_what_is_focused_can_be_left_again(page):
    """No map holds the focus: Tab goes through it, forwards and back."""
    open_view(page, "compare", run="first")
    page.locator("main").focus()
    _reach(page, ".cells")
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    _reach(page, ".cells")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") != first
    _reach(page, ".cells", back=True)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == first
