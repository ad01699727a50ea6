"""Short maps: decimals, masks, quantities, scales, colour maps, links, heads that are loaded."""

import json

import pytest
import torch
from playwright.sync_api import expect

from regard.inspecting import save_caption
from regard.inspecting.rollout import answer_rollout, rollout
from regard.plots.colours import colour
from regard.serving import build_app
from regard.serving.colour_maps import MAPS
from regard.serving.gold import Drawing, sentence
from regard.serving.loaded_head import loaded_head
from regard.serving.quantities import QuantitySettings, numbers_of
from regard.serving.registry import open_runs
from regard.serving.server import running
from regard.serving.side_by_side import side_by_side
from tests.browser.looking import TARGET, TEXT, hear, open_view, settle, table, violations
from tests.inspecting.captions_by_hand import captioned, random_maps, written

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that the page shows."""
WARM = QuantitySettings(temperature=3.0)


@pytest.fixture(scope="module")
def record(registry):
    return registry.run("first").trained.look(TEXT, TARGET)


def _pixels(page, selector):
    return page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector), { width, height } = canvas;
          const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
          const pixel = (at) => [...data.slice(4 * at, 4 * at + 4)];
          return Array.from({ length: height }, (_, y) =>
            Array.from({ length: width }, (_, x) => pixel(y * width + x)));
        }""",
        selector,
    )


def _shown(page, want):
    """Whether the table below a picture has these numbers."""
    page.locator(".numbers summary").last.click()
    got = table(page, ".numbers:last-of-type")
    assert [len(row) for row in got] == [len(row) for row in want]
    for mine, theirs in zip(got, want, strict=True):
        assert mine == pytest.approx(theirs, abs=CLOSE)


def test_numbers_have_four_decimals(page, record):
    open_view(page, "answer", run="first", unit="pieces")
    _shown(page, record.weights("cross").tolist())


@pytest.mark.parametrize(
    ("wishes", "make"),
    [
        ({"kind": "decoder", "shown": "arriving", "layer": 2, "head": 1},
         lambda record: record.arriving("decoder", 1, 0)),
        ({"kind": "decoder", "layer": 1, "head": 2, "temperature": 3.0},
         lambda record: numbers_of(record, "decoder", "weights", WARM)[0, 1]),
        ({"kind": "encoder", "shown": "rollout", "residual": 0.25},
         lambda record: rollout(record, "encoder", residual=0.25)),
        ({"kind": "decoder", "shown": "flow"},
         lambda record: numbers_of(record, "decoder", "flow", QuantitySettings())[0, 0]),
        ({"kind": "cross", "shown": "answer"}, lambda record: answer_rollout(record).source),
    ],
)  # fmt: skip
def test_what_is_shown_is_python_s(page, record, wishes, make):
    open_view(page, "answer", run="first", unit="pieces", **wishes)
    _shown(page, make(record).tolist())
    assert page.locator(".shown").inner_text().endswith(".")


def test_what_is_shown_is_chosen_and_kept_in_the_address(page, record):
    open_view(page, "answer", run="first", kind="encoder", unit="pieces")
    page.get_by_role("combobox", name="quantity").select_option("rollout")
    expect(page.locator(".what")).to_have_text(
        "encoder attention, rollout through all layers, residual 0.5"
    )
    page.wait_for_url("**shown=rollout**")
    # all layers and heads are in it
    assert page.get_by_role("combobox", name="layer").count() == 0
    assert page.get_by_role("button", name="Every head").count() == 0
    page.get_by_role("slider", name="residual").fill("0.9")
    expect(page.locator(".what")).to_contain_text("residual 0.9")
    _shown(page, rollout(record, "encoder", residual=0.9).tolist())


def test_masked_cells_are_hatched_and_nothing_else_is(page, record):
    open_view(page, "answer", run="first", kind="decoder", layer=1, head=1, unit="pieces")
    pixels = _pixels(page, ".cells canvas")
    for i, row in enumerate(pixels):
        assert [alpha for *_, alpha in row] == [255 * (j <= i) for j in range(len(row))]
    assert "gradient" in page.locator(".cells").evaluate(
        "(one) => getComputedStyle(one).backgroundImage"
    )
    page.locator(".cells").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".cell")).to_contain_text("masked, this query may not see this key")
    expect(page.locator(".legend")).to_contain_text("masked")
    page.locator(".line").first.locator("button").nth(2).click()
    keys = page.locator(".line").nth(1).locator("button")
    expect(keys.nth(3)).to_contain_class("masked")
    expect(keys.nth(2)).not_to_contain_class("masked")
    # the tables say it too
    page.locator(".numbers summary").last.click()
    said = (
        page.locator(".numbers td")
        .nth(1)
        .evaluate("(one) => getComputedStyle(one, '::after').content")
    )
    assert said == '"masked"'


def test_a_lift_counts_the_keys_that_a_query_may_see(page, record):
    open_view(page, "answer", run="first", kind="decoder", layer=1, head=1, unit="pieces")
    weights = record.weights("decoder", 0, 0)
    page.locator(".cells").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    cell = r"query 3 .* → key 2 .*: ([\d.]+) \(([\d.]+) times"
    weight, lift = hear(page, ".cell", cell)
    assert float(weight) == pytest.approx(float(weights[2, 1]), abs=CLOSE)
    assert float(lift) == pytest.approx(3 * float(weights[2, 1]), abs=0.051)


@pytest.mark.parametrize("name", MAPS)
def test_pixels_are_those_of_the_colour_map_that_was_chosen(page, record, name):
    page.emulate_media(color_scheme="dark")
    open_view(page, "answer", run="first", kind="encoder", layer=1, head=1, unit="pieces")
    page.get_by_label("colour map").select_option(name)
    page.wait_for_url(f"**map={name}**")
    weights = record.weights("encoder", 0, 0)
    settle(page)
    for i, row in enumerate(_pixels(page, ".cells canvas")):
        for j, pixel in enumerate(row):
            want = colour(MAPS[name], float(weights[i, j] / weights.max()))
            assert pixel[:3] == pytest.approx(want, abs=1)


@pytest.mark.parametrize("scale", ["root", "log", "lift"])
def test_a_scale_is_what_its_legend_says(page, record, scale):
    open_view(
        page, "answer", run="first", kind="decoder", layer=1, head=1, unit="pieces", scale=scale
    )
    weights = record.weights("decoder", 0, 0).double()
    allowed = torch.arange(1, len(weights) + 1)[:, None]
    value = weights * allowed if scale == "lift" else weights
    low = {"log": 1e-4, "lift": 0.1}.get(scale)
    share = (
        (value / value.max()).sqrt() if low is None
        else (value.clamp(min=low) / low).log() / (value.max() / low).log()
    )  # fmt: skip
    assert float(page.locator(".legend-top").inner_text()) == pytest.approx(
        float(value.max()), abs=CLOSE
    )
    ramp = json.loads(page.request.get("/api/colours").text())["light"]["weights"]
    for i, row in enumerate(_pixels(page, ".cells canvas")):
        for j in range(i + 1):
            assert row[j][:3] == pytest.approx(colour(ramp, float(share[i, j])), abs=1)
    page.reload()
    page.wait_for_selector(".map canvas")
    assert page.get_by_role("combobox", name="scale").input_value() == scale


def test_a_head_of_the_model_is_loaded_into_the_worked_example(page, registry, record):
    open_view(page, "worked", run="first", numbers="model", kind="decoder", layer=2, head=1)
    told = loaded_head(record, "decoder", 1, 0)
    values = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.stage input')]"
        ".map((one) => [one.dataset.name, Number(one.dataset.value)]))"
    )
    for stage, want in (("Q", told["Q"]), ("V", told["V"]), ("weights", told["weights"])):
        for i, row in enumerate(want):
            for j, number in enumerate(row):
                assert values[f"{stage}.0.{i}.{j}"] == pytest.approx(number, abs=1e-6)
    expect(page.locator(".as-loaded")).to_contain_text("the weights of the model itself")
    page.get_by_role("button", name="Check with Python").click()
    page.get_by_text("Python computes the same").wait_for()
    box = page.locator("[data-name='K.0.0.0']")
    box.fill("9")
    box.press("Enter")
    expect(page.locator(".as-loaded")).to_have_count(0)
    page.get_by_role("button", name="Check with Python").click()
    page.get_by_text("Python computes the same").wait_for()


def test_changing_a_key_leaves_a_query_that_was_changed(page):
    open_view(page, "worked", edits="Q.0.0.0~5")
    box = page.locator("[data-name='K.0.1.1']")
    box.fill("7")
    box.press("Enter")
    expect(page.locator("[data-name='K.0.1.1']")).to_have_attribute("data-value", "7")
    expect(page.locator("[data-name='Q.0.0.0']")).to_have_attribute("data-value", "5")


def test_costs_of_mechanisms_are_those_of_the_server(page, record):
    open_view(page, "mechanisms", run="first", kind="decoder", layer=1, head=1)
    want = side_by_side(record, "decoder", 0, 0)["panels"]
    rows = page.locator("table:has(caption:text('In numbers')) tbody tr")
    for i, panel in enumerate(want):
        cells = rows.nth(i).locator("td").all_inner_texts()
        assert float(cells[4]) == pytest.approx(panel["cosine"], abs=CLOSE)
        assert int(cells[5].replace(",", "")) == panel["operations"]
        assert int(cells[6].replace(",", "")) == panel["bytes"]
    # a window hides more than the model's own mask
    seen = page.locator(".side-by-side figure:has-text('sliding_window') canvas").evaluate(
        "(one) => one.getContext('2d').getImageData(0, one.height - 1, 1, 1).data[3]"
    )
    assert seen == 0


def test_links_are_drawn_as_they_are_asked_for_and_the_rates_follow(page, registry):
    open_view(page, "gold", run="first", layer=1, head=1)
    drawing = Drawing("threshold", 0.06, "left_out")
    page.get_by_role("combobox", name="links are").select_option("threshold")
    page.get_by_label("punctuation counts").uncheck()
    page.get_by_role("slider", name="threshold").fill("0.06")
    want = sentence(registry, "first", 0, "predicting", drawing)["drawn"][0]
    expect(page.locator(".mark.own")).to_have_count(len(want["links"]))
    expect(page.locator(".rate")).to_have_text(f"{100 * want['error_rate']:.1f} %")
    page.wait_for_url("**punctuation=left_out**")
    page.get_by_role("combobox", name="links are").select_option("intersection")
    both = sentence(registry, "first", 0, "predicting", Drawing("intersection"))["drawn"][0]
    expect(page.locator(".mark.own")).to_have_count(len(both["links"]))


def test_a_contact_sheet_shows_every_word_at_once(page, registry):
    open_view(page, "captions", run="captions")
    page.get_by_label("contact sheet").check()
    record = registry.run("captions").trained.look_at_picture(
        registry.run("captions").example_inputs().inputs[0]
    )
    cards = page.locator(".sheet button")
    expect(cards).to_have_count(len(record.words))
    for i, peak in enumerate(record.maps().flatten(1).amax(1).tolist()):
        said = cards.nth(i).inner_text().split()
        assert float(said[-1]) == pytest.approx(peak, abs=CLOSE)
    cards.nth(1).click()
    page.wait_for_url("**pin=q2**")
    expect(cards.nth(1)).to_have_attribute("aria-pressed", "true")


@pytest.fixture(scope="module")
def saved_caption(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "dog.safetensors"
    caption = captioned([list(random_maps(2, 3, 16))], written("a", "dog"), gates=(0.5, 0.25, 1.0))
    save_caption(caption, path)
    with running(build_app(open_runs([path]))) as address:
        yield caption, address


def test_a_saved_caption_is_served_without_a_run(browser, saved_caption):
    caption, address = saved_caption
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{address}#/captions")
    expect(page.locator(".caption")).to_have_text(caption.caption)
    weight = float(page.locator(".cell-weight").inner_text())
    sharpest = int(caption.entropies().argmin())
    assert weight == pytest.approx(float(caption.maps()[sharpest].max()), abs=CLOSE)
    page.wait_for_function("() => document.querySelector('.photo img').naturalWidth > 0")
    assert page.locator("nav a").all_inner_texts() == ["Worked example", "Captions", "Course"]
    page.close()
    assert said == []


@pytest.mark.parametrize(
    ("view", "wishes"),
    [
        ("answer", {"kind": "decoder", "scale": "lift"}),
        ("answer", {"kind": "encoder", "shown": "flow", "map": "viridis"}),
        ("worked", {"numbers": "model", "kind": "cross", "text": "ate", "target": "dog"}),
        ("gold", {"drawing": "threshold", "map": "cividis"}),
        ("captions", {"sheet": "on", "map": "magma"}),
    ],
)
def test_axe_finds_nothing_in_what_may_be_chosen(page, view, wishes):
    run = "captions" if view == "captions" else "first"
    open_view(page, view, run=run, **wishes)
    _check_both_themes(page)


def test_axe_finds_nothing_in_the_grid_of_heads(page):
    open_view(page, "answer", run="first", kind="decoder", scale="lift")
    page.get_by_role("button", name="Every head").click()
    page.wait_for_selector(".heads canvas")
    _check_both_themes(page)


def _check_both_themes(page):
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        settle(page)
        assert violations(page) == [], theme
