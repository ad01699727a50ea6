"""A real browser for exported pages: no error may be said, and nothing may be asked of the net."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    browser = browser or shutil.which("chromium-browser")
    assert browser, "no chromium: install it (apt-get install chromium)"
    args = ["--no-sandbox", "--font-render-hinting=none", "--force-color-profile=srgb"]
    return {**browser_type_launch_args, "executable_path": browser, "args": args}


@pytest.fixture(scope="session")
def base_url():
    """Pages are opened from disk."""
    return ""


@pytest.fixture
def offline(context):
    """Opens a page from disk with the network off; fails if it complains or asks for anything."""
    bad, page = [], context.new_page()
    context.set_offline(True)
    # machines that build are slow, and shared
    page.set_default_timeout(30_000)
    page.on("pageerror", lambda error: bad.append(str(error)))
    page.on("console", lambda said: bad.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: bad.append(dialog.message))
    page.on(
        "request",
        lambda asked: (
            None if asked.url.startswith(("file:", "data:", "blob:")) else bad.append(asked.url)
        ),
    )

    def opened(path):
        page.goto(f"file://{path}")
        return page

    yield opened
    assert bad == []
