"""The studio in Debian's Chromium. Every test also fails on an error, or on a request elsewhere.

Loading the studio takes longer than most of what is asked of it, so `page` stays open from test to
test; it is as wide, as light and as still as at first when the next one begins, and a test that
fails takes it away with it. `fresh` is loaded for one test alone.
"""

import os
import shutil
from dataclasses import replace

import pytest
import torch
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.registry import Registry, open_runs
from regard.serving.server import running
from tests.browser.looking import COUNTING
from tests.captioning import RECIPE, trained_captioner
from tests.serving.serving import make_registry

RECIPE_OF_CAPTIONS = (
    RECIPE.replace("count = 24", "count = 1")
    .replace("steps = 8", "steps = 60")
    .replace('select = "hard"', 'select = "soft"')
    .replace("warmup_steps = 2", 'warmup_steps = 2\nlearning_rate = 0.02\nschedule = "constant"')
    .replace("every = 4", "every = 200")
)
"""Its one caption is soon known by heart, so that a caption has several words."""
HAS_FAILED = pytest.StashKey[bool]()
SIZE = {"width": 1000, "height": 800}
SETTINGS = {
    "viewport": SIZE,
    "device_scale_factor": 1,
    "reduced_motion": "reduce",
    "locale": "en-GB",
    "timezone_id": "UTC",
}
PATIENCE = 30_000
"""Milliseconds until something is missed; machines that build are slow, and shared."""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    assert path, "no chromium: install it (apt-get install chromium)"
    args = ["--no-sandbox", "--font-render-hinting=none", "--force-color-profile=srgb"]
    return {**browser_type_launch_args, "executable_path": path, "args": args}


@pytest.fixture
def browser_context_args(browser_context_args, base_url):
    # a file of tests may have a server of its own, and files take turns
    return {**browser_context_args, **SETTINGS, "base_url": base_url}


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    # this comes before the test's own ground; more threads only wait for each other here
    torch.set_num_threads(1)
    texts = make_registry(folder)
    captions = open_runs([trained_captioner(folder / "pictures", RECIPE_OF_CAPTIONS)], device="cpu")
    captioner = replace(captions.runs["run"], name="captions")
    return Registry({**texts.runs, captioner.name: captioner}, texts.gold)


@pytest.fixture(scope="session")
def base_url(registry):
    with running(build_app(registry)) as address:
        yield address.rstrip("/")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture(scope="session")
def open_pages():
    """Pages that stay open, by the server that they show, and what went wrong on each."""
    return {}


@pytest.fixture
def faults():
    """What went wrong on the page; a test that provokes something takes it out."""
    return []


def _watched(context, base_url, faults):
    """A page of a context that says what goes wrong."""
    context.add_init_script(COUNTING)
    page = context.new_page()
    page.on("pageerror", lambda error: faults().append(str(error)))
    page.on("dialog", lambda dialog: faults().append(f"dialog: {dialog.message}"))
    page.on("console", lambda said: faults().append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda asked: (
            faults().append(f"outside: {asked.url}")
            if not asked.url.startswith((base_url, "data:", "blob:"))
            else None
        ),
    )
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    return page


@pytest.fixture
def fresh(context, base_url, faults):
    """A page that nobody has used yet."""
    yield _watched(context, base_url, lambda: faults)
    assert not faults, faults


@pytest.fixture
def page(request, browser, open_pages, base_url, faults):
    """The page that stays open, as it was at first."""
    if base_url not in open_pages:
        context, bad = browser.new_context(**SETTINGS, base_url=base_url), [faults]
        open_pages[base_url] = _watched(context, base_url, lambda: bad[0]), bad
    page, bad = open_pages[base_url]
    bad[0] = faults
    page.emulate_media(color_scheme="light", reduced_motion="reduce", forced_colors="none")
    page.set_viewport_size(SIZE)
    page.mouse.move(0, 0)
    yield page
    if faults or HAS_FAILED in request.node.stash:
        del open_pages[base_url]
        page.context.close()
    assert not faults, faults
