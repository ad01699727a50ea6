"""The page at first sight: the picture above the fold, names, examples, settings, the tour."""

import re

import pytest
from playwright.sync_api import expect

from regard.data import Example
from regard.data.corpus import write_corpus
from regard.plots.colours import DARK, LIGHT
from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.browser.looking import TARGET, TEXT, settle, violations
from tests.factories import ENCODER, make_run
from tests.serving.serving import TEXTS

pytestmark = pytest.mark.browser

LAPTOP = {"width": 1280, "height": 800}
KEPT = '{"version": 1, "inputs": ["a dog ate", "the food was hungry"]}'


@pytest.fixture(scope="session")
def tasks(tmp_path_factory):
    """One run of each of four tasks; the first keeps examples and its training texts."""
    folder = tmp_path_factory.mktemp("tasks")
    runs = [make_run(folder / "writer", *TEXTS, max_len=48)]
    runs += [
        make_run(folder / name, *TEXTS, model=ENCODER.format(task=name))
        for name in ("words", "tags", "label")
    ]
    (runs[0] / "examples.json").write_text(KEPT)
    registry = open_runs(runs, device="cpu")
    loaded = registry.runs["writer"].trained.loaded
    for split in ("train", "valid"):
        pairs = [Example(TEXTS[0], (TEXTS[0],)), Example("a dog ate", ("a dog ate",))]
        write_corpus(runs[0] / "corpus" / split, pairs, loaded.source, loaded.target)
    return registry


@pytest.fixture(scope="session")
def base_url(tasks):
    with running(build_app(tasks)) as address:
        yield address.rstrip("/")


def _bottom(page, selector):
    box = page.locator(selector).first.bounding_box()
    return box["y"] + box["height"]


def test_words_and_map_are_above_the_fold_and_the_settings_beside_them(page):
    page.set_viewport_size(LAPTOP)
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&unit=words")
    page.wait_for_selector(".map canvas")
    settle(page)
    assert _bottom(page, ".map .cells") <= LAPTOP["height"]
    picture, panel = (page.locator(one).bounding_box() for one in (".picture", ".side-panel"))
    assert panel["x"] >= picture["x"] + picture["width"]
    assert panel["y"] < LAPTOP["height"] / 2


def test_on_a_phone_the_settings_stand_below_the_picture(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&unit=words")
    page.wait_for_selector(".map canvas")
    settle(page)
    assert page.locator(".side-panel").bounding_box()["y"] >= _bottom(page, ".picture")


def test_settings_fold_away_and_stay_so(fresh):
    fresh.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}")
    expect(fresh.get_by_label("scale")).to_be_visible()
    fresh.get_by_role("button", name="Hide").click()
    expect(fresh.get_by_label("scale")).to_have_count(0)
    fresh.reload()
    expect(fresh.get_by_role("button", name="Settings")).to_have_attribute("aria-expanded", "false")
    fresh.get_by_role("button", name="Settings").click()
    expect(fresh.get_by_label("scale")).to_be_visible()


@pytest.mark.parametrize(
    ("run", "verb"),
    [("writer", "Translate"), ("words", "Fill in"), ("tags", "Tag"), ("label", "Classify")],
)
def test_a_view_is_named_by_what_the_run_does(page, run, verb):
    page.goto(f"/#/answer?run={run}")
    expect(page.locator("h1")).to_have_text(verb)
    expect(page.locator("nav a").first).to_have_text(verb)
    if page.get_by_label("Text").input_value() == "":
        page.get_by_label("Text").fill("a dog")
    expect(page.get_by_role("button", name=verb, exact=True)).to_be_enabled()


def test_a_link_of_a_former_release_leads_to_the_same_view(page):
    page.goto(f"/#/translate?run=writer&text={TEXT}&target={TARGET}&kind=encoder&layer=1&head=2")
    expect(page.locator(".what")).to_contain_text("encoder attention, layer 1, head 2")
    assert page.get_by_label("Text").input_value() == TEXT


def test_examples_are_the_run_s_own_and_no_others(page):
    page.goto("/#/answer?run=writer")
    offered = page.locator(".offers button")
    expect(offered).to_have_text(["a dog ate", "the food was hungry"])
    assert page.get_by_label("Text").input_value() == "a dog ate"


def test_a_text_unlike_all_training_texts_is_told_with_how_it_was_judged(page):
    page.goto("/#/answer?run=writer&text=yrg nuh&target=dog")
    note = page.locator(".unlike")
    expect(note).to_contain_text(re.compile(r"Unlike all training texts: \d+% of its rows of 3"))
    expect(note).to_contain_text("in 95 of 100 validation texts")
    page.goto("/#/answer?run=writer&text=a dog ate&target=dog")
    page.wait_for_selector(".map canvas")
    settle(page)
    expect(note).to_have_count(0)


def test_a_small_map_of_each_head_leads_to_it(page):
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&kind=encoder")
    heads = page.get_by_role("group", name="choose a head").get_by_role("button")
    heads.nth(1).click()
    expect(page.locator(".what")).to_contain_text("head 2")
    expect(heads.nth(1)).to_have_attribute("aria-pressed", "true")
    heads.nth(1).click()
    expect(page.locator(".what")).to_contain_text("mean of")


def test_a_figure_of_the_view_is_saved_for_a_paper(page):
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&kind=encoder&head=2")
    page.wait_for_selector(".map canvas")
    with page.expect_download() as begun:
        page.get_by_role("link", name="Save the heat map as PDF").click()
    assert begun.value.suggested_filename == "attention-encoder.pdf"
    assert begun.value.path().read_bytes().startswith(b"%PDF-")


def test_names_of_columns_are_all_turned_or_none_is(page):
    for unit in ("pieces", "words"):
        page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&unit={unit}")
        page.wait_for_selector(".columns div")
        settle(page)
        modes = page.locator(".columns div").evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).writingMode)"
        )
        assert len(modes) > 1
        assert len(set(modes)) == 1


def test_the_tour_points_at_what_it_speaks_of_and_does_not_cover_it(page):
    page.set_viewport_size(LAPTOP)
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}&unit=words&tour=1")
    seen = ("Ask the run", "Words that look at words", "One head at a time")
    for title in seen:
        expect(page.get_by_role("dialog", name="tour")).to_contain_text(title)
        page.wait_for_selector(".spot")
        settle(page)
        spot, card = (page.locator(one).bounding_box() for one in (".spot", ".tour"))
        apart = (
            card["x"] >= spot["x"] + spot["width"]
            or spot["x"] >= card["x"] + card["width"]
            or card["y"] >= spot["y"] + spot["height"]
            or spot["y"] >= card["y"] + card["height"]
        )
        assert apart, title
        page.get_by_role("button", name="Next", exact=True).last.click()
    page.keyboard.press("Escape")


def test_answers_are_drawn_instead_of_searched_for_where_the_run_writes(page):
    page.goto("/#/answer?run=writer&text=a dog&most=4&sample=on&seed=1")
    page.wait_for_selector(".answers label")
    expect(page.get_by_label("draw instead of search")).to_be_checked()
    first = page.locator(".answers b").all_inner_texts()
    settle(page)
    page.get_by_label("seed").fill("2")
    page.get_by_label("seed").press("Enter")
    expect(page.locator(".answers b").first).not_to_have_text(first[0])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_and_figures_have_one_colour_map(page, theme):
    page.emulate_media(color_scheme=theme)
    page.goto(f"/#/answer?run=writer&text={TEXT}&target={TARGET}")
    page.wait_for_selector(".map canvas")
    shown = page.locator(".legend i").first.evaluate("(one) => one.style.background")
    ramp = {"light": LIGHT, "dark": DARK}[theme]
    for colour in (ramp[0], ramp[-1]):
        rgb = ", ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        assert f"rgb({rgb})" in shown


def test_axe_finds_nothing_with_sampling_and_the_tour_open(page):
    page.set_viewport_size(LAPTOP)
    page.goto("/#/answer?run=writer&text=a dog&most=4&sample=on&tour=2")
    page.wait_for_selector(".spot")
    settle(page)
    assert violations(page) == []
