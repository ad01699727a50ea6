"""Numbers on the page are Python's, and pixels are the colour table's."""

import json
import re

import pytest
from playwright.sync_api import expect

from regard.inspecting.lessons import worked
from regard.inspecting.panels import View
from regard.plots.colours import LIGHT, colour
from tests.browser.looking import TARGET, TEXT, hear, open_view, settle, table

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that the page shows."""


@pytest.fixture(scope="module")
def record(registry):
    return registry.run("first").trained.look(TEXT, TARGET)


def _pixel(page, selector, column, row):
    return page.evaluate(
        "([selector, x, y]) => [...document.querySelector(selector).getContext('2d')"
        ".getImageData(x, y, 1, 1).data]",
        [selector, column, row],
    )


@pytest.mark.parametrize(
    ("wishes", "view"),
    [
        ({}, View()),
        ({"kind": "decoder", "layer": 2, "head": 1}, View("decoder", 1, 0)),
        ({"kind": "encoder", "head": 2, "unit": "pieces"}, View("encoder", None, 1, "pieces")),
    ],
)
def test_the_table_and_the_title_are_python_s(page, record, wishes, view):
    open_view(page, "answer", run="first", **wishes)
    panel = record.panel(view)
    assert page.locator(".what").inner_text() == panel.title
    page.locator(".numbers summary").click()
    shown, want = table(page), panel.weights.tolist()
    assert [len(row) for row in shown] == [len(row) for row in want]
    for mine, theirs in zip(shown, want, strict=True):
        assert mine == pytest.approx(theirs, abs=CLOSE)


def test_every_cell_that_arrow_keys_reach_says_its_weight_and_has_its_colour(page, record):
    open_view(page, "answer", run="first", kind="encoder", layer=1, head=1, unit="pieces")
    weights = record.weights("encoder", 0, 0)
    page.locator(".cells").focus()
    walk = [(0, 0, None), (0, 1, "ArrowRight"), (1, 1, "ArrowDown"), (1, 2, "ArrowRight")]
    for row, column, key in walk:
        if key:
            page.keyboard.press(key)
        cell = rf"query {row + 1} .* → key {column + 1} .*: ([\d.]+) \("
        (number,) = hear(page, ".cell", cell)
        assert float(number) == pytest.approx(float(weights[row, column]), abs=CLOSE)
        red, green, blue, alpha = _pixel(page, ".cells canvas", column, row)
        want = colour(LIGHT, float(weights[row, column]) / float(weights.max()))
        assert alpha == 255
        assert (red, green, blue) == pytest.approx(want, abs=1)


def test_the_words_take_the_colours_of_their_weights(page, record):
    open_view(page, "answer", run="first", pin="q1")
    panel = record.panel(View())
    shown = (
        page.locator(".line")
        .nth(1)
        .locator("button")
        .evaluate_all("(all) => all.map((one) => getComputedStyle(one).backgroundColor)")
    )
    want = [
        colour(LIGHT, weight / float(panel.weights.max())) for weight in panel.weights[0].tolist()
    ]
    for mine, theirs in zip(shown, want, strict=True):
        assert [int(part) for part in re.findall(r"\d+", mine)[:3]] == pytest.approx(theirs, abs=1)


def test_hidden_special_tokens_say_how_much_they_took_and_rows_sum_to_one(page, record):
    open_view(page, "answer", run="first", specials="hidden")
    panel = record.panel(View())
    gone = panel.weights[:-1, -1].mean()
    assert (
        f"{100 * float(gone):.1f} % of the weight, on <eos>, is hidden"
        in page.locator(".note").last.inner_text()
    )
    page.locator(".numbers summary").click()
    assert [sum(row) for row in table(page)] == pytest.approx(
        [1.0] * (len(panel.queries) - 1), abs=2e-3
    )


def test_tiles_on_the_page_are_the_record_s_numbers(page, record):
    open_view(page, "atlas", run="first", kind="encoder", layer=1, head=2)
    weights = record.weights("encoder", 0, 1)
    page.locator(".far button").first.click()
    cell = r"query (\d+) .* → key (\d+) .*: ([\d.]+) \(lift ([\d.]+)\)"
    query, key, number, lift = hear(page, ".readout", cell)
    weight = float(weights[int(query) - 1, int(key) - 1])
    assert float(number) == pytest.approx(weight, abs=CLOSE)
    assert float(lift) == pytest.approx(weight * weights.shape[1], abs=1e-2)


def test_mechanisms_show_what_the_server_computed(page, record):
    open_view(page, "mechanisms", run="first", kind="encoder", layer=1, head=1)
    page.locator(".side-by-side .numbers summary").first.click()
    shown = table(page, ".side-by-side figure:first-child .numbers")
    for mine, theirs in zip(shown, record.weights("encoder", 0, 0).tolist(), strict=True):
        assert mine == pytest.approx(theirs, abs=CLOSE)
    page.locator(".side-by-side .cells").nth(2).focus()
    page.keyboard.press("ArrowRight")
    model, scaled_dot = hear(page, ".readout", r"→ .*▁.*: model ([\d.]+), scaled_dot ([\d.]+)")
    assert (
        float(model)
        == float(scaled_dot)
        == pytest.approx(float(record.weights("encoder", 0, 0)[0, 1]), abs=CLOSE)
    )


def test_a_caption_s_words_look_where_python_says(page, registry):
    open_view(page, "captions", run="captions")
    trained = registry.run("captions").trained
    record = trained.look_at_picture(registry.run("captions").example_inputs().inputs[0])
    assert page.locator(".caption").inner_text() == record.caption
    page.get_by_role("button", name="next word").click()
    cells = record.maps()[1]
    page.wait_for_url("**pin=q2**")
    settle(page)
    said = float(page.locator(".cell-weight").inner_text())
    assert said == pytest.approx(float(cells.max()), abs=CLOSE)


def test_the_error_rate_of_a_pair_is_that_of_its_links(page, registry):
    open_view(page, "gold", run="first", layer=1, head=1, pair=2)
    import torch

    from regard.evaluating import AlignmentCounts
    from regard.evaluating.attention_links import argmax_links
    from regard.serving.gold import sentence

    said = sentence(registry, "first", 1, "predicting")
    weights = torch.tensor(said["weights"])[0, 0]
    counts = AlignmentCounts.of(argmax_links(weights, range(len(weights))), registry.gold.links[1])
    assert page.locator(".rate").inner_text() == f"{100 * counts.error_rate:.1f} %"
    assert page.locator(".mark.sure").count() == 2


# the worked example


def _values(page):
    return page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.stage input')]"
        ".map((one) => [one.dataset.name, Number(one.dataset.value)]))"
    )


def _stage(values, name, head=0):
    places = [key.split(".") for key in values if key.startswith(f"{name}.{head}.")]
    rows = max(int(part[2]) for part in places) + 1
    columns = max(int(part[3]) for part in places) + 1
    return [[values[f"{name}.{head}.{i}.{j}"] for j in range(columns)] for i in range(rows)]


def test_numbers_of_the_worked_example_stay_under_the_pointer(page):
    open_view(page, "worked")
    page.mouse.move(0, 0)
    numbers = page.get_by_role("textbox", name="W_Q, row 1, column 1")
    before = numbers.bounding_box()
    numbers.hover()
    expect(page.locator(".readout b")).to_have_text("W_Q")
    assert numbers.bounding_box() == before


def test_the_worked_example_begins_with_python_s_numbers(page):
    open_view(page, "worked")
    values, want = _values(page), worked()
    for stage, name in (
        ("scores", "scores"),
        ("weights", "weights"),
        ("context", "context"),
        ("out", "context"),
    ):
        for mine, theirs in zip(_stage(values, stage), want[name], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize(
    "wishes",
    [
        {
            "heads": 2,
            "mask": "causal",
            "scaled": "on",
            "temperature": 0.7,
            "edits": "X.0.1.2~5.25*W_Q.1.0.0~-0.5",
        },
        {"keys": "other", "scaled": "on", "edits": "Y.0.0.0~-3*W_O.0.2.1~0.125"},
    ],
)  # fmt: skip
def test_changed_inputs_give_what_python_computes_with_them(page, wishes):
    open_view(page, "worked", **wishes)
    values, count = _values(page), int(wishes.get("heads", 1))
    asked = {
        "queries": _stage(values, "X"),
        "keys": _stage(values, "Y" if "keys" in wishes else "X"),
        "heads": [
            {name: _stage(values, name, head) for name in ("W_Q", "W_K", "W_V")}
            for head in range(count)
        ],
        "W_O": _stage(values, "W_O"),
        "is_scaled": "scaled" in wishes,
        "is_causal": "mask" in wishes,
        "temperature": wishes.get("temperature", 1.0),
    }
    answer = page.request.post(
        "/api/worked", data=json.dumps(asked), headers={"content-type": "application/json"}
    )
    done = answer.json()
    names = {"Q": "query", "K": "key", "V": "value", "products": "products", "scores": "scores",
             "weights": "weights", "context": "context"}  # fmt: skip
    for head in range(count):
        for stage, name in names.items():
            for mine, theirs in zip(
                _stage(values, stage, head), done["heads"][head][name], strict=True
            ):
                assert mine == pytest.approx(theirs, abs=1e-6)
    assert [sum(row) for row in _stage(values, "weights", count - 1)] == pytest.approx(
        [1.0] * 3, abs=1e-9
    )
    for mine, theirs in zip(_stage(values, "out"), done["out"], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)
    page.get_by_role("button", name="Check with Python").click()
    page.get_by_text("Python computes the same").wait_for()


def test_a_number_that_is_typed_changes_all_to_its_right_and_nothing_to_its_left(page):
    open_view(page, "worked")
    before = _values(page)
    box = page.locator("[data-name='scores.0.1.2']")
    box.fill("20")
    box.press("Enter")
    page.wait_for_function(
        "() => document.querySelector(\"[data-name='scores.0.1.2']\").dataset.value === '20'"
    )
    after = _values(page)
    left = ("X", "W_Q", "W_K", "W_V", "Q", "K", "V", "products", "W_O")
    assert {k: v for k, v in after.items() if k.split(".")[0] in left} == {
        k: v for k, v in before.items() if k.split(".")[0] in left
    }
    assert after["max.0.1.0"] == 20
    assert after["weights.0.1.2"] > 0.99
    assert after["out.0.1.1"] != before["out.0.1.1"]
    assert after["weights.0.0.0"] == before["weights.0.0.0"]
    page.wait_for_url("**scores.0.1.2%7E20**")
    # an earlier number that is changed makes the later one be computed again
    box = page.locator("[data-name='X.0.0.0']")
    box.fill("2")
    box.press("Enter")
    page.wait_for_function(
        "() => document.querySelector(\"[data-name='scores.0.1.2']\").dataset.value === '6'"
    )


def test_the_labels_of_the_softmax_stand_by_their_numbers(page):
    open_view(page, "worked")
    values = _values(page)
    for row in range(3):
        scores, exps = _stage(values, "scores")[row], _stage(values, "exp")[row]
        assert values[f"max.0.{row}.0"] == max(scores)
        assert values[f"sum.0.{row}.0"] == pytest.approx(sum(exps), abs=1e-12)
        assert max(exps) == 1
    assert (
        page.locator(".stage:has([data-name^='max.']) figcaption")
        .inner_text()
        .startswith("row maximum")
    )
