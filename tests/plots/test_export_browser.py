"""Exports in a real browser, opened from disk with the network off: Python's numbers, alive."""

import re

import pytest
import torch

from regard.attention.patterns.causal import CausalPattern
from regard.inspecting import Pyramid, capture
from regard.inspecting.panels import View
from regard.models import TransformerSpec, build_transformer
from regard.plots import document_page, look_page
from regard.plots.colours import LIGHT, colour
from regard.plots.picture_page import picture_page
from tests.inspecting.captions_by_hand import captioned, random_maps, written
from tests.inspecting.hand_made import of_a_model, tokens, written_down
from tests.plots.test_record_figures import long_record

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that a page shows."""
LENGTH = 16_000
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def document():
    """What a small encoder looks at in 16,000 pieces, some of which mean no good."""
    torch.manual_seed(2)
    spec = TransformerSpec(
        d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=1, max_len=LENGTH
    )
    model = build_transformer(spec, n_source_tokens=50, n_target_tokens=50).eval()
    names = [f"▁word{i}" if i % 900 else HOSTILE for i in range(LENGTH)]
    with torch.no_grad(), capture(model, names=[names]) as record:
        model.encode(torch.randint(5, 50, (1, LENGTH)))
    return record


@pytest.fixture(scope="module")
def exported(document, tmp_path_factory):
    path = tmp_path_factory.mktemp("document") / "look.html"
    path.write_text(document_page(document, View("encoder", 0, 1)), encoding="utf-8")
    return path


def heaviest(page):
    return float(re.search(r"heaviest ([\d.e-]+) ", page.locator(".cell").inner_text())[1])


def weight_said(page):
    """The weight of the cell that arrow keys reached."""
    return float(re.search(r": ([\d.]+) \(", page.locator(".cell").inner_text())[1])


def test_a_document_of_16_000_pieces_shows_python_s_numbers(document, exported, offline):
    page = offline(exported)
    assert exported.stat().st_size < 30_000_000
    page.get_by_role("combobox", name="picture").select_option(label="layer 1, head 1")
    tile = Pyramid(document.attention["encoder"].layers[0]).tile(0, 0, 0, 0)
    page.locator(".cells").focus()
    for keys, at in (
        ([], (0, 0)),
        (["ArrowDown", "ArrowDown", "ArrowRight"], (2, 1)),
        (["PageDown", "ArrowLeft"], (12, 0)),
        (["Control+End"], (249, 249)),
    ):
        for key in keys:
            page.keyboard.press(key)
        assert heaviest(page) == pytest.approx(float(tile.values[at]), rel=1e-5)
    said = page.locator(".cell").inner_text()
    assert said.startswith("queries 15937–16000 → keys 15937–16000")
    # the ends of a range that is too long to be read
    held = re.search("⟦(.*)⟧", page.locator(".key").inner_text())[1]
    assert re.fullmatch(r"\s*word15936 .* … .* word15999", held)
    assert "4 of 64 queries of each" in page.locator(".exactness").inner_text()


def test_its_finer_picture_is_exact_and_says_so(document, exported, offline):
    page = offline(exported)
    assert page.locator(".exactness").inner_text() == "16 × 16 cells a pixel, every query"
    page.locator(".cells").focus()
    page.keyboard.press("ArrowDown")
    weights = document.weights("encoder", 0, 1, rows=slice(16, 32), columns=slice(0, 16))
    assert heaviest(page) == pytest.approx(float(weights.max()), rel=1e-4)
    assert "word16" in page.locator(".query").inner_text()
    # the first piece is hostile, and stays text
    assert HOSTILE in page.locator(".key").inner_text()
    assert page.locator("img").count() == 0


def test_its_pixels_are_the_colour_table_s(document, exported, offline):
    page = offline(exported)
    page.get_by_role("combobox", name="picture").select_option(label="layer 1, head 2")
    page.get_by_role("combobox", name="colours by").select_option("linear")
    tile = Pyramid(document.attention["encoder"].layers[0]).tile(1, 0, 0, 0)
    for row, column in ((0, 0), (3, 7), (249, 100)):
        got = page.evaluate(
            "([x, y]) => [...document.querySelector('.cells canvas').getContext('2d')"
            ".getImageData(x, y, 1, 1).data]",
            [column, row],
        )
        share = float(tile.values[row, column]) / tile.highest
        assert tuple(got[:3]) == pytest.approx(colour(LIGHT, share), abs=1)


def test_the_lift_that_is_said_is_the_weight_times_the_keys_that_the_query_may_see(
    offline, tmp_path
):
    torch.manual_seed(4)
    record = long_record(300, pattern=CausalPattern())
    (tmp_path / "look.html").write_text(document_page(record, View("self", 0, 0)), "utf-8")
    page = offline(tmp_path / "look.html")
    page.locator(".cells").focus()
    for keys, (query, key) in ((["PageDown"], (10, 0)), (["Control+End"], (299, 299))):
        for one in keys:
            page.keyboard.press(one)
        said = page.locator(".cell").inner_text()
        lift = float(re.search(r"lift ([\d.e-]+)\)", said)[1])
        weight = float(record.weights("self", 0, 0)[query, key])
        assert lift == pytest.approx(weight * (query + 1), rel=6e-3)
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    assert page.locator(".cell").inner_text() == "queries 1 → keys 2: masked"
    # what is masked has no colour of its own: the hatched ground shows
    seen = page.evaluate(
        "() => [...document.querySelector('.cells canvas').getContext('2d')"
        ".getImageData(1, 0, 1, 1).data]"
    )
    assert seen == [0, 0, 0, 0]
    ground = page.locator(".cells").evaluate("(one) => getComputedStyle(one).backgroundImage")
    assert ground.startswith("repeating-linear-gradient")


def test_every_word_of_a_short_answer_has_a_row_of_its_own(offline, tmp_path):
    torch.manual_seed(6)
    weights = torch.rand(1, 5, 2000).softmax(-1)
    record = written_down(
        weights.tolist(),
        queries=tokens(*(f"▁said{i}" for i in range(5))),
        keys=tokens(*(f"▁read{j}" for j in range(2000))),
    )
    (tmp_path / "look.html").write_text(document_page(record), "utf-8")
    page = offline(tmp_path / "look.html")
    page.get_by_role("combobox", name="picture").select_option(label="layer 1, head 1")
    assert page.locator(".exactness").inner_text() == "1 × 8 cells a pixel, every query"
    page.locator(".cells").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".cell").inner_text().startswith("queries 3 → keys 9–16: heaviest")
    assert heaviest(page) == pytest.approx(float(weights[0, 2, 8:16].max()), rel=1e-5)
    assert "⟦ said2⟧" in page.locator(".query").inner_text()
    assert "⟦ read8 read9" in page.locator(".key").inner_text()
    assert page.locator(".cells").bounding_box()["height"] == 5 * 24


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_document_fits_a_narrow_screen_in_either_colours(exported, offline, scheme):
    page = offline(exported)
    page.emulate_media(color_scheme=scheme, forced_colors="none")
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_two_notebook_outputs_on_one_page_both_work(offline, tmp_path):
    torch.manual_seed(6)
    record, _ = of_a_model()
    plain = written_down([[[0.25, 0.75]]], queries=tokens("chien"), keys=tokens("a", "dog"))
    cells = "".join(f"<div>{one._repr_html_()}</div>" for one in (record, plain, record))
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><body>{cells}</body>", encoding="utf-8"
    )
    page = offline(tmp_path / "notebook.html")
    first, second, third = (page.frame_locator("iframe").nth(i) for i in range(3))
    said = "“\u2068chien\u2069” looks at “\u2068dog\u2069” 0.7500"
    assert said in second.locator(".readout").inner_text()
    for frame in (first, third):
        frame.get_by_role("combobox", name="layer").select_option("2")
        frame.get_by_role("combobox", name="head").select_option("3")
        frame.locator(".cells").focus()
        page.keyboard.press("ArrowRight")
        want = float(record.words("cross", 1, 2)[0, 1])
        assert weight_said(frame) == pytest.approx(want, abs=CLOSE)
    assert said in second.locator(".readout").inner_text()


@pytest.mark.parametrize("width", [420, 900])
def test_frames_of_a_notebook_show_all_without_scroll_bars_inside(offline, tmp_path, width):
    torch.manual_seed(6)
    record, _ = of_a_model()
    caption = captioned([list(random_maps(2, 4, 16))], written("a", "red", "dog"))
    cells = "".join(f"<div>{one._repr_html_()}</div>" for one in (record, caption))
    written_page = f"<!doctype html><body>{cells}</body>"
    (tmp_path / "notebook.html").write_text(written_page, encoding="utf-8")
    page = offline(tmp_path / "notebook.html")
    page.set_viewport_size({"width": width, "height": 700})
    page.wait_for_timeout(300)
    for i in range(2):
        page.locator("iframe").nth(i).scroll_into_view_if_needed()
        inside = page.locator("iframe").nth(i).element_handle().content_frame()
        fits = "document.documentElement.scrollHeight <= innerHeight"
        # the page allows no evaluation by itself, which waiting for a function would need
        for _ in range(100):
            if inside.evaluate(fits):
                break
            page.wait_for_timeout(100)
        assert inside.evaluate(fits)
        # and no taller than what is in it
        high = inside.evaluate("[innerHeight, document.body.getBoundingClientRect().bottom]")
        assert high[0] - high[1] < 80


def test_a_translation_opens_from_disk_and_follows_the_keyboard(offline, tmp_path):
    torch.manual_seed(8)
    record, _ = of_a_model()
    (tmp_path / "look.html").write_text(look_page(record), encoding="utf-8")
    page = offline(tmp_path / "look.html")
    page.locator(".cells").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    want = float(record.words("cross")[3, 0])
    assert weight_said(page) == pytest.approx(want, abs=CLOSE)


def test_a_caption_opens_from_disk_and_every_cell_says_whose_weight_it_has(offline, tmp_path):
    record = captioned([list(random_maps(2, 4, 16))], written("a", "red", "dog"))
    (tmp_path / "look.html").write_text(picture_page([record]), encoding="utf-8")
    page = offline(tmp_path / "look.html")
    page.locator(".line button").nth(2).click()
    stage, maps = page.locator(".stage"), record.maps()
    stage.focus()
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    for row in range(4):
        page.keyboard.press("Home")
        for column in range(4):
            # names are isolated, so that each keeps its own direction
            said = re.sub("[\u2068\u2069]", "", page.locator(".cell").inner_text())
            told = re.match(
                r"row (\d), column (\d): “dog” ([\d.]+); most of “(\w+)” ([\d.]+)", said
            )
            assert told is not None, said
            assert (int(told[1]), int(told[2])) == (row + 1, column + 1)
            cell = maps[:, row, column]
            assert float(told[3]) == pytest.approx(float(cell[2]), abs=CLOSE)
            assert told[4] == record.words[int(cell.argmax())]
            assert float(told[5]) == pytest.approx(float(cell.max()), abs=CLOSE)
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
