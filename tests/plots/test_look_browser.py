"""The page in a real browser: what its script shows is what Python says."""

import re
from html import unescape

import pytest
import torch

from regard.inspecting.panels import View
from regard.plots import look_page
from tests.inspecting.hand_made import of_a_model, tokens, written_down

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that the page shows."""


def _opened(offline, page, folder):
    """The page's text after its script has run, opened from disk."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    return offline(folder / "page.html").content()


@pytest.mark.parametrize(
    "view", [View(), View("decoder", 1, 2), View("encoder", 0, None, "pieces")]
)
def test_the_table_and_the_title_are_python_s(offline, view, tmp_path):
    torch.manual_seed(11)
    record, _ = of_a_model()
    shown = _opened(offline, look_page(record, view), tmp_path)
    table = re.search(r'<div id="table".*?</div>', shown, re.DOTALL)
    assert table is not None
    cells = [float(cell) for cell in re.findall(r"<td[^>]*>([\d.]+)</td>", table[0])]
    panel = record.panel(view)
    want = [weight for row in panel.weights.tolist() for weight in row]
    assert cells == pytest.approx(want, abs=CLOSE)
    assert f'id="map-title">{panel.title}<' in shown
    names = re.findall(r'<th scope="row">(.*?)</th>', table[0])
    assert tuple(map(unescape, names)) == panel.queries


def test_hostile_tokens_are_shown_and_do_nothing(offline, tmp_path):
    hostile = "<img src=x onerror=\"document.title='caught'\">"
    record = written_down([[[0.3, 0.7]]], queries=tokens(hostile), keys=tokens("</script>", "dog"))
    shown = _opened(offline, look_page(record), tmp_path)
    assert "<title>caught" not in shown
    assert "<img" not in shown
    assert "“&lt;img src=x" in shown
    assert "looks at “dog” 0.7000, “&lt;/script&gt;” 0.3000" in shown
