"""As people have set their machines: narrow, at 200 %, dark, with forced colours, less motion."""

import pytest
from playwright.sync_api import expect

from regard.inspecting.panels import View
from regard.plots.colours import LIGHT, colour
from tests.browser.looking import TARGET, TEXT, VIEWS, open_view, settle, violations

pytestmark = pytest.mark.browser

NARROW, WIDE = {"width": 360, "height": 740}, {"width": 1000, "height": 800}
ZOOMED = {"width": 640, "height": 400, "deviceScaleFactor": 2, "mobile": False}
"""A window of 1280 by 800 at 200 %: half the units across, twice the pixels in each."""


def _zoom(page):
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", ZOOMED)


def _size(page):
    return page.evaluate("[devicePixelRatio, innerWidth]")


def _wider_than_the_screen(page):
    wide, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{wide} pixels in {screen}"] if wide > screen else []


def _cut(page):
    """Whatever is wide scrolls in its own box; what else leaves the page?"""
    outside = page.evaluate(
        "[...document.querySelectorAll('button, select, input, a, summary, h1, h2, p')]"
        ".filter((one) => !one.closest('.scroll, .skip') && one.getClientRects().length"
        " && (one.getBoundingClientRect().right > 641 || one.getBoundingClientRect().left < -1))"
        ".map((one) => one.outerHTML.slice(0, 90))"
    )
    return [*_wider_than_the_screen(page), *outside]


def _moving(page):
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter((one) => {"
        " const style = getComputedStyle(one);"
        " return style.animationName !== 'none' || style.transitionDuration !== '0s'"
        "   || style.scrollBehavior === 'smooth'; }).map((one) => one.outerHTML.slice(0, 90))"
    )
    running = page.evaluate("document.getAnimations().length")
    plays = page.get_by_role("button", name="play", exact=True).count()
    return [*moving, *["an animation"] * running, *["a button to play"] * plays]


SENTENCES = (
    ("a narrow screen needs no scrolling sideways",
     lambda page: page.set_viewport_size(NARROW), [1, 360], _wider_than_the_screen),
    ("at 200 % nothing is cut and nothing scrolls sideways", _zoom, [2, 640], _cut),
    ("nothing moves by itself where less motion is asked for",
     lambda page: page.set_viewport_size(WIDE), [1, 1000], _moving),
    ("axe finds nothing in light colours",
     lambda page: page.emulate_media(color_scheme="light"), [1, 1000], violations),
    ("axe finds nothing in dark colours",
     lambda page: page.emulate_media(color_scheme="dark"), [1, 1000], violations),
    ("axe finds nothing where colours are forced",
     lambda page: page.emulate_media(color_scheme="light", forced_colors="active"),
     [1, 1000], violations),
)  # fmt: skip
"""What holds of every view, how to come there, the size it is seen in, and what breaks it."""


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_suits_every_screen_and_every_eye(fresh, view):
    fresh.set_viewport_size(NARROW)
    open_view(fresh, view)
    broken = {}
    for sentence, arrange, size, faults in SENTENCES:
        arrange(fresh)
        settle(fresh)
        assert _size(fresh) == size, sentence
        broken[sentence] = faults(fresh)
    assert {sentence: said for sentence, said in broken.items() if said} == {}


@pytest.fixture
def forced(page):
    page.emulate_media(forced_colors="active")
    return page


def test_forced_colours_leave_weights_their_own(forced, registry):
    open_view(forced, "answer", run="first", pin="q1")
    panel = registry.run("first").trained.look(TEXT, TARGET).panel(View())
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
    open_view(forced, "answer", run="first", pin="q1")
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


def test_at_200_per_cent_the_pointer_is_over_the_cell_that_it_seems_to_be(fresh):
    _zoom(fresh)
    open_view(fresh, "answer", run="first", kind="encoder", unit="pieces")
    cells = fresh.locator(".cells")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    count = fresh.locator(".rows div").count()
    size = box["height"] / count
    fresh.mouse.move(box["x"] + 1.5 * size, box["y"] + 2.5 * size)
    expect(fresh.locator(".cell")).to_contain_text("query 3 ")
    expect(fresh.locator(".cell")).to_contain_text("→ key 2 ")


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
