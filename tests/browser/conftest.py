"""The studio in Debian's Chromium. Every test also fails on an error, or on a request elsewhere."""

import os
import shutil
from dataclasses import replace

import pytest
import torch
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.running import running
from regard.serving.shelf import Shelf, open_runs
from tests.captioning import RECIPE, trained_captioner
from tests.serving.serving import make_shelf

RECIPE_OF_CAPTIONS = (
    RECIPE.replace("count = 24", "count = 1")
    .replace("steps = 8", "steps = 60")
    .replace('select = "hard"', 'select = "soft"')
    .replace("warmup_steps = 2", 'warmup_steps = 2\nlearning_rate = 0.02\nschedule = "constant"')
    .replace("every = 4", "every = 200")
)
"""Its one caption is soon known by heart, so that a caption has several words."""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    assert path, "no chromium: install it (apt-get install chromium)"
    args = ["--no-sandbox", "--font-render-hinting=none", "--force-color-profile=srgb"]
    return {**browser_type_launch_args, "executable_path": path, "args": args}


@pytest.fixture
def browser_context_args(browser_context_args, base_url):
    return {
        **browser_context_args,
        # a file of tests may have a server of its own, and files take turns
        "base_url": base_url,
        "viewport": {"width": 1000, "height": 800},
        "device_scale_factor": 1,
        "reduced_motion": "reduce",
        "locale": "en-GB",
        "timezone_id": "UTC",
    }


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    # this comes before the test's own ground; more threads only wait for each other here
    torch.set_num_threads(1)
    texts = make_shelf(folder)
    captions = open_runs([trained_captioner(folder / "pictures", RECIPE_OF_CAPTIONS)], device="cpu")
    captioner = replace(captions.runs["run"], name="captions")
    return Shelf({**texts.runs, captioner.name: captioner}, texts.gold)


@pytest.fixture(scope="session")
def base_url(shelf):
    with running(build_app(shelf)) as address:
        yield address.rstrip("/")


@pytest.fixture
def faults():
    """What went wrong on the page; a test that provokes something takes it out."""
    return []


@pytest.fixture
def page(page, base_url, faults):
    bad = faults
    page.on("pageerror", lambda error: bad.append(str(error)))
    page.on("dialog", lambda dialog: bad.append(f"dialog: {dialog.message}"))
    page.on("console", lambda said: bad.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda asked: (
            bad.append(f"outside: {asked.url}")
            if not asked.url.startswith((base_url, "data:", "blob:"))
            else None
        ),
    )
    # machines that build are slow, and shared
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    yield page
    assert not bad, bad
