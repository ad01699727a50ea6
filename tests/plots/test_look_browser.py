"""The page in a real browser: what its script shows is what Python says."""

import re
import shutil
import subprocess
from html import unescape

import pytest
import torch

from regard.inspecting.panels import View
from regard.plots import look_page
from tests.inspecting.hand_made import of_a_model, tokens, written_down

pytestmark = pytest.mark.browser


def _opened(page, folder):
    """The page's text after its script has run, opened from disk."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "no chromium: install it (apt-get install chromium)"
    (folder / "page.html").write_text(page, encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{folder / 'page.html'}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    "view", [View(), View("decoder", 1, 2), View("encoder", 0, None, "pieces")]
)
def test_the_table_and_the_title_are_python_s(view, tmp_path):
    torch.manual_seed(11)
    record, _ = of_a_model()
    shown = _opened(look_page(record, view), tmp_path)
    table = re.search(r'<div id="table".*?</div>', shown, re.DOTALL)
    assert table is not None
    cells = [float(cell) for cell in re.findall(r"<td[^>]*>([\d.]+)</td>", table[0])]
    panel = record.panel(view)
    want = [weight for row in panel.weights.tolist() for weight in row]
    assert cells == pytest.approx(want, abs=5.1e-4)
    assert f'id="map-title">{panel.title}<' in shown
    names = re.findall(r'<th scope="row">(.*?)</th>', table[0])
    assert tuple(map(unescape, names)) == panel.queries


def test_hostile_tokens_are_shown_and_do_nothing(tmp_path):
    hostile = "<img src=x onerror=\"document.title='caught'\">"
    record = written_down([[[0.3, 0.7]]], queries=tokens(hostile), keys=tokens("</script>", "dog"))
    shown = _opened(look_page(record), tmp_path)
    assert "<title>caught" not in shown
    assert "<img" not in shown
    assert "“&lt;img src=x" in shown
    assert "looks at “dog” 0.7000, “&lt;/script&gt;” 0.3000" in shown
