"""As people have set their machines: forced colours, 200 % zoom, less motion."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from regard.inspecting.panels import View
from regard.plots.colours import LIGHT, colour
from tests.browser.looking import TARGET, TEXT, VIEWS, open_view

pytestmark = pytest.mark.browser

ZOOMED = {"width": 640, "height": 400, "deviceScaleFactor": 2, "mobile": False}
"""A window of 1280 by 800 at 200 %: half the units across, twice the pixels in each."""


@pytest.fixture
def forced(page):
    page.emulate_media(forced_colors="active")
    return page


@pytest.fixture
def zoomed(page):
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", ZOOMED)
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_where_colours_are_forced(forced, view):
    open_view(forced, view)
    found = Axe().run(forced).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found] == []


def test_forced_colours_leave_weights_their_own(forced, shelf):
    open_view(forced, "translate", run="first", pin="q1")
    panel = shelf.run("first").trained.look(TEXT, TARGET).panel(View())
    top = float(panel.weights.max())
    want = [colour(LIGHT, weight / top) for weight in panel.weights[0].tolist()]
    shown = forced.locator(".line").nth(1).locator("button")
    for i, rgb in enumerate(want):
        ground = shown.nth(i).evaluate("(one) => getComputedStyle(one).backgroundColor")
        assert [int(part) for part in ground[4:-1].split(",")] == pytest.approx(rgb, abs=1)
    assert "gradient" in forced.locator(".legend i").first.evaluate(
        "(one) => getComputedStyle(one).backgroundImage"
    )


def test_forced_colours_still_show_focus_crosshair_and_what_is_pinned(forced):
    open_view(forced, "translate", run="first", pin="q1")
    forced.locator(".cells").focus()
    forced.keyboard.press("ArrowRight")
    for part in ("row", "column"):
        style = forced.locator(f".cross.{part}").evaluate(
            "(one) => [getComputedStyle(one).borderTopStyle, getComputedStyle(one).borderTopColor]"
        )
        assert style[0] == "solid"
        assert "0)" not in style[1].replace("rgb(0, 0, 0)", "")
    forced.get_by_role("button", name="Links").focus()
    assert forced.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    line = forced.locator(".line").first
    pinned, free = (
        line.locator(f"[aria-pressed={is_pinned}]").first.evaluate(
            "(one) => getComputedStyle(one).boxShadow"
        )
        for is_pinned in ("true", "false")
    )
    assert pinned != "none" == free


@pytest.mark.parametrize("view", VIEWS)
def test_at_200_per_cent_nothing_is_cut_and_nothing_scrolls_sideways(zoomed, view):
    open_view(zoomed, view)
    assert zoomed.evaluate("[devicePixelRatio, innerWidth]") == [2, 640]
    assert zoomed.evaluate("document.documentElement.scrollWidth") <= 640
    # whatever is wide scrolls in its own box; nothing else leaves the page
    outside = zoomed.evaluate(
        "[...document.querySelectorAll('button, select, input, a, summary, h1, h2, p')]"
        ".filter((one) => !one.closest('.scroll, .skip') && one.getClientRects().length"
        " && (one.getBoundingClientRect().right > 641 || one.getBoundingClientRect().left < -1))"
        ".map((one) => one.outerHTML.slice(0, 90))"
    )
    assert [one for one in outside if 'class="skip"' not in one] == []


def test_at_200_per_cent_the_pointer_is_over_the_cell_that_it_seems_to_be(zoomed):
    open_view(zoomed, "translate", run="first", kind="encoder", unit="pieces")
    cells = zoomed.locator(".cells")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    count = zoomed.locator(".rows div").count()
    size = box["height"] / count
    zoomed.mouse.move(box["x"] + 1.5 * size, box["y"] + 2.5 * size)
    expect(zoomed.locator(".cell")).to_contain_text("query 3 ")
    expect(zoomed.locator(".cell")).to_contain_text("→ key 2 ")


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_moves_by_itself_where_less_motion_is_asked_for(page, view):
    page.emulate_media(reduced_motion="reduce")
    open_view(page, view)
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter((one) => {"
        " const style = getComputedStyle(one);"
        " return style.animationName !== 'none' || style.transitionDuration !== '0s'"
        "   || style.scrollBehavior === 'smooth'; }).length + document.getAnimations().length"
    )
    assert moving == 0
    assert page.get_by_role("button", name="play", exact=True).count() == 0


@pytest.mark.parametrize(("motion", "flashing"), [("reduce", 0), ("no-preference", 1)])
def test_a_changed_number_flashes_only_where_motion_is_welcome(page, motion, flashing):
    page.emulate_media(reduced_motion=motion)
    open_view(page, "worked")
    box = page.locator("[data-name='scores.0.1.2']")
    box.fill("20")
    box.press("Enter")
    expect(page.locator("[data-name='weights.0.1.2'].flash")).to_have_count(1)
    seen = page.evaluate(
        "getComputedStyle(document.querySelector(\"[data-name='weights.0.1.2']\")).animationName"
    )
    assert (seen == "flash") == bool(flashing)
