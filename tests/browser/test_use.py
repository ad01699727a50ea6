"""Using the studio: by pointer and keys, in either theme, with any text."""

import pytest
from playwright.sync_api import expect

from regard.inspecting.panels import View
from tests.browser.looking import TEXT, open_view, settle
from tests.captioning import draw
from tests.serving.serving import HOSTILE

pytestmark = pytest.mark.browser

NAMES = "(all) => all.map((one) => one.textContent)"


def test_a_sentence_is_asked_looked_at_and_pinned_without_a_mouse(page):
    open_view(page, "answer", run="first")
    page.get_by_label("Text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("the food")
    page.keyboard.press("Enter")
    expect(page.locator(".line").nth(1)).to_contain_text("food")
    words = page.locator(".line").first.locator("button")
    words.first.focus()
    page.keyboard.press("ArrowRight")
    expect(words.nth(1)).to_be_focused()
    expect(page.locator(".readout")).to_contain_text("looks at")
    page.keyboard.press("Enter")
    expect(words.nth(1)).to_have_attribute("aria-pressed", "true")
    page.wait_for_url("**pin=q2**")
    page.keyboard.press("Escape")
    expect(words.nth(1)).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("]")
    expect(page.locator(".what")).to_contain_text("layer 1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("previous and next head")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_hover_previews_and_a_click_pins(page):
    open_view(page, "answer", run="first", pin="q1")
    words = page.locator(".line").first.locator("button")
    pinned = page.locator(".readout").inner_text()
    words.nth(2).hover()
    expect(page.locator(".readout")).not_to_have_text(pinned)
    page.mouse.move(2, 2)
    expect(page.locator(".readout")).to_have_text(pinned)
    words.nth(2).click()
    page.mouse.move(2, 2)
    expect(page.locator(".readout")).not_to_have_text(pinned)
    words.nth(0).click(modifiers=["Shift"])
    page.wait_for_url("**pin=q3.q1**")
    expect(page.locator(".readout")).to_contain_text(" + ")


def test_an_address_shows_the_same_again(page):
    open_view(page, "answer", run="second", kind="decoder", layer=2, head=1, pin="q2")
    page.get_by_role("button", name="Links").click()
    said, title = page.locator(".readout").inner_text(), page.locator(".what").inner_text()
    page.reload()
    page.wait_for_selector(".links path", state="attached")
    expect(page.locator(".readout")).to_have_text(said, use_inner_text=True)
    expect(page.locator(".what")).to_have_text(title, use_inner_text=True)
    assert title == "decoder attention, layer 2, head 1"
    assert page.get_by_label("run").input_value() == "second"


def test_playback_goes_word_by_word_and_moves_alone_only_where_motion_is_welcome(page):
    open_view(page, "answer", run="first", pin="q1")
    assert page.get_by_role("button", name="play").count() == 0
    page.get_by_role("button", name="next word").click()
    expect(page.locator(".playback")).to_contain_text("word 2 of")
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_role("button", name="play").click()
    expect(page.locator(".playback")).to_contain_text("word 4 of")


def test_a_model_that_reads_letters_is_shown_by_letters_until_words_are_asked_for(page):
    open_view(page, "answer", run="first", unit="")
    keys, shown = page.locator(".line").nth(1).locator("button"), page.get_by_label("show")
    expect(keys).to_have_text([*"a▁dog▁ate", "<eos>"], use_inner_text=False)
    assert shown.locator("option:checked").inner_text() == "letters"
    expect(page.locator(".playback")).to_contain_text("piece ")
    shown.select_option("words")
    expect(keys).to_have_text(["a", "dog", "ate", "<eos>"], use_inner_text=False)
    open_view(page, "compare", unit="")
    assert page.get_by_label("show").input_value() == "words"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # the model writes what it likes to the first; to search six times tells no more
        (HOSTILE, ""),
        *((text, text) for text in ("</script>", "&lt;b&gt;", "الكلب يأكل", "我很好", "🐕 x")),
    ],
)
def test_any_text_stays_text(page, registry, text, answer):
    open_view(page, "answer", run="first")
    page.get_by_label("Answer", exact=True).fill(answer)
    page.get_by_label("Text").fill(text)
    page.get_by_role("button", name="Translate", exact=True).click()
    panel = registry.run("first").trained.look(text, answer or None).panel(View())
    queries, keys = (page.locator(".line").nth(i).locator("button") for i in (0, 1))
    # letter by letter what Python has, no more and no less
    expect(keys).to_have_text(list(panel.keys), use_inner_text=False)
    assert queries.evaluate_all(NAMES) == list(panel.queries)
    assert keys.evaluate_all(NAMES) == list(panel.keys)
    assert page.locator(".columns div").evaluate_all(NAMES) == list(panel.keys)
    assert page.locator(".numbers tbody th").evaluate_all(NAMES) == list(panel.queries)
    assert page.get_by_label("Text").input_value() == text
    # none of them has become an element of its own
    assert keys.evaluate_all("(all) => all.reduce((sum, one) => sum + one.children.length, 0)") == 0


def test_words_of_the_right_to_left_run_from_right_to_left(page):
    open_view(page, "answer", run="first", text="الكلب يأكل", kind="encoder")
    line = page.locator(".line").nth(1)
    assert line.evaluate("(one) => getComputedStyle(one).direction") == "rtl"
    first, second = (line.locator("button").nth(i).bounding_box() for i in (0, 1))
    assert first["x"] > second["x"]


def test_a_picture_of_one_s_own_is_captioned(page, tmp_path):
    open_view(page, "captions")
    draw(tmp_path / "mine.png", 7, size=48)
    before = page.locator(".photo img").first.get_attribute("src")
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.png")
    expect(page.locator(".photo img").first).not_to_have_attribute("src", before)
    page.wait_for_function("() => document.querySelector('.photo img').naturalWidth === 48")


def test_a_file_that_is_no_picture_is_an_error_that_says_so(page, tmp_path, base_url):
    answer = page.request.post(f"{base_url}/api/runs/captions/caption", data=b"no picture")
    assert answer.status == 400
    assert "the picture that was sent" in answer.json()["error"]["message"]


def test_the_atlas_zooms_pans_and_finds_by_keyboard(page):
    open_view(page, "atlas", run="first")
    page.locator(".atlas [role=application]").focus()
    canvas = page.locator(".atlas canvas").first
    start = canvas.get_attribute("data-view")
    page.keyboard.press("+")
    expect(canvas).not_to_have_attribute("data-view", start)
    page.keyboard.press("0")
    expect(canvas).to_have_attribute("data-view", start)
    page.keyboard.press("ArrowRight")
    expect(canvas).not_to_have_attribute("data-view", start)
    # what is said is what is in the middle now
    query, key, _ = map(float, canvas.get_attribute("data-view").split())
    expect(page.locator(".readout")).to_contain_text(f"query {int(query) + 1} ")
    expect(page.locator(".readout")).to_contain_text(f"key {int(key) + 1} ")
    page.keyboard.press("f")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("g")
    expect(page.get_by_text("1 keys, 1 queries")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".snippets")).to_contain_text("key 5")


def test_between_two_texts_the_atlas_does_not_speak_of_distance(page):
    open_view(page, "atlas", run="first", kind="cross")
    expect(page.get_by_role("heading", name="Strongest links")).to_be_visible()
    assert page.get_by_label("more than").count() == 0


def test_a_layer_that_there_is_not_is_the_mean(page):
    open_view(page, "gold", run="first", layer=99, head="x")
    expect(page.get_by_text("This pair: error rate")).to_be_visible()
    open_view(page, "captions", layer=99, head=99)
    expect(page.locator(".cell-weight")).to_be_visible()


def test_the_wheel_zooms_at_the_pointer_and_dragging_pans(page):
    open_view(page, "atlas", run="first")
    canvas = page.locator(".atlas canvas").first
    canvas.scroll_into_view_if_needed()
    box, start = canvas.bounding_box(), canvas.get_attribute("data-view")
    x, y = box["x"] + 500, box["y"] + 250
    page.mouse.move(x, y)
    expect(page.locator(".readout")).to_contain_text("query")
    under = page.locator(".readout").inner_text().split(":")[0]
    page.mouse.wheel(0, 240)
    expect(canvas).not_to_have_attribute("data-view", start)
    page.mouse.move(x + 1, y)
    expect(page.locator(".readout")).to_contain_text(under)
    before = canvas.get_attribute("data-view")
    page.mouse.down()
    page.mouse.move(x - 60, y - 40, steps=4)
    page.mouse.up()
    expect(canvas).not_to_have_attribute("data-view", before)
    settle(page)
    after = canvas.get_attribute("data-view")
    (query, key, scale), (query_2, key_2, scale_2) = (
        map(float, view.split()) for view in (before, after)
    )
    assert scale == scale_2
    assert key_2 - key == pytest.approx(61 / scale, abs=0.01)
    assert query_2 - query == pytest.approx(40 / scale, abs=0.01)


def test_the_table_of_heads_is_sorted_by_what_one_chooses_and_leads_to_a_head(page):
    open_view(page, "answer", run="first")
    page.get_by_role("button", name="Every head").click()
    page.get_by_text("What each head does").click()
    page.get_by_role("button", name="entropy, nats").click()
    settle(page)
    column = page.locator(".numbers tbody tr td:nth-child(2)").all_inner_texts()[:4]
    assert column == sorted(column, key=float, reverse=True)
    page.locator(".numbers tbody th button").first.click()
    expect(page.locator(".what")).to_contain_text("head")
    page.wait_for_url("**layer=**")


def test_a_mask_is_drawn_in_a_colour_that_no_weight_has(page):
    open_view(page, "atlas", run="first", kind="decoder")
    page.wait_for_function(
        "() => document.querySelector('.exactness').textContent.includes('All tiles')"
    )
    grey = page.evaluate(
        """(() => {
          const canvas = document.querySelector('.atlas canvas'), strip = 84;
          const [query, key, scale] = canvas.dataset.view.split(' ').map(Number);
          const x = strip + (2.5 - key) * scale + (canvas.width - strip) / 2;
          const y = strip + (0.5 - query) * scale + (canvas.height - strip) / 2;
          return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
        })()"""
    )
    assert grey == [205, 208, 212, 255]


def test_the_theme_follows_the_system_and_may_be_chosen(fresh):
    fresh.emulate_media(color_scheme="dark")
    open_view(fresh, "training")
    ground = expect(fresh.locator("body"))
    ground.to_have_css("background-color", "rgb(22, 24, 27)")
    fresh.get_by_label("theme").select_option("light")
    ground.to_have_css("background-color", "rgb(255, 255, 255)")
    fresh.reload()
    fresh.wait_for_selector("nav")
    ground.to_have_css("background-color", "rgb(255, 255, 255)")


def test_the_tour_leads_through_the_views_and_ends(page):
    open_view(page, "training")
    page.get_by_role("button", name="Tour").click()
    card = page.get_by_role("dialog", name="tour")
    expect(card).to_contain_text("1 of 9")
    expect(page.locator("h1")).to_have_text("Translate")
    for _ in range(8):
        page.get_by_role("button", name="Next", exact=True).last.click()
    expect(card).to_contain_text("9 of 9")
    expect(page.locator("h1")).to_have_text("Training")
    page.get_by_role("button", name="Done").click()
    expect(card).to_have_count(0)


def test_a_text_that_is_too_long_is_told_and_the_page_lives_on(page, faults):
    page.goto("/#/answer?run=first&text=" + "a" * 90)
    expect(page.get_by_role("alert")).to_contain_text("at most 48")
    page.get_by_label("Text").fill(TEXT)
    page.keyboard.press("Enter")
    expect(page.locator(".map canvas")).to_be_visible()
    assert all("413" in fault for fault in faults)
    faults.clear()
