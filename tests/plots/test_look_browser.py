"""The page in a real browser: what its script shows is what Python says."""

import pytest
import torch

from regard.inspecting.panels import View
from regard.plots import look_page
from tests.browser.looking import violations
from tests.inspecting.hand_made import of_a_model, tokens, written_down

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that the page shows."""


def _opened(offline, page, folder):
    """The page after its script has run, opened from disk."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    return offline(folder / "page.html")


@pytest.mark.parametrize(
    "view", [View(), View("decoder", 1, 2), View("encoder", 0, None, "pieces")]
)
def test_the_table_and_the_title_are_python_s(offline, view, tmp_path):
    torch.manual_seed(11)
    record, _ = of_a_model()
    page = _opened(offline, look_page(record, view), tmp_path)
    cells = [float(cell) for cell in page.locator(".numbers td").all_text_contents()]
    panel = record.panel(view)
    want = [weight for row in panel.weights.tolist() for weight in row]
    assert cells == pytest.approx(want, abs=CLOSE)
    assert page.locator(".what").inner_text() == panel.title
    assert tuple(page.locator(".numbers th[scope=row]").all_text_contents()) == panel.queries


def test_pictures_have_names_for_readers_who_do_not_see_them(offline, tmp_path):
    record, _ = of_a_model()
    page = _opened(offline, look_page(record), tmp_path)
    assert page.locator(".readout").get_attribute("role") == "status"
    assert page.locator(".cell").get_attribute("aria-live") == "polite"
    assert page.locator(".cells").get_attribute("tabindex") == "0"
    label = page.locator(".cells").get_attribute("aria-label")
    assert label.startswith("cross attention, mean of 2 layers × 3 heads: 10 queries by 11 keys.")
    assert page.locator("canvas:not([aria-hidden=true])").count() == 0
    assert violations(page) == []


def test_what_is_chosen_stays_in_the_address(offline, tmp_path):
    record, _ = of_a_model()
    page = _opened(offline, look_page(record), tmp_path)
    page.get_by_label("layer 2, head 3").click()
    page.get_by_label("show").select_option("pieces")
    page.get_by_role("button", name="Links").click()
    page.reload()
    assert page.locator(".what").inner_text() == "cross attention, layer 2, head 3"
    assert page.locator(".links path").count() > 0
    page.keyboard.press("[")
    assert page.locator(".what").inner_text() == "cross attention, layer 1, head 3"


def test_arrow_keys_lead_from_the_words_of_one_side_to_the_other_s(offline, tmp_path):
    record, _ = of_a_model()
    page = _opened(offline, look_page(record), tmp_path)
    page.locator(".line").first.locator("button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == record.panel().keys[0]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == record.panel().queries[1]


def test_hostile_tokens_are_shown_and_do_nothing(offline, tmp_path):
    hostile = "<img src=x onerror=\"document.title='caught'\">"
    record = written_down([[[0.3, 0.7]]], queries=tokens(hostile), keys=tokens("</script>", "dog"))
    shown = _opened(offline, look_page(record), tmp_path).content()
    shown = shown.replace("\u2068", "").replace("\u2069", "")
    assert "<title>caught" not in shown
    assert "<img" not in shown
    assert "“&lt;img src=x" in shown
    assert "looks at “dog” 0.7000, “&lt;/script&gt;” 0.3000" in shown
