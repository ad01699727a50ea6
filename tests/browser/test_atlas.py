"""The map of a long text in the browser: sampled at first, exact in the end, smooth in between."""

import json
import re

import pytest
import torch
from playwright.sync_api import expect

from regard.attention import FULL, AttentionMap
from regard.attention.attend import SCALED_DOT, SOFT
from regard.attention.links import NO_RELATION, SoftRows
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Tokens
from regard.places import Places
from regard.serving import build_app
from regard.serving.registry import Registry
from regard.serving.server import running
from tests.browser.looking import hear, settle

pytestmark = pytest.mark.browser

N = 4_200
"""The whole map is more than 4,096 cells a side, so that one tile of it is sampled at first."""
AT_ONCE = 4
COUNTING = """
  const fetched = window.fetch;
  window.flying = window.most = 0;
  window.fetch = (where, how) => {
    if (!String(where).includes("/tiles/")) return fetched(where, how);
    window.most = Math.max(window.most, window.flying += 1);
    return fetched(where, how).finally(() => { window.flying -= 1; });
  };
"""
"""How many tiles the page waits for."""


def random_layer(n_queries, n_keys):
    query, key = (1.5 * torch.randn(1, 2, n, 8) for n in (n_queries, n_keys))
    return AttentionMap(
        query=query,
        key=key,
        rows=SoftRows((query @ key.mT * 8**-0.5).logsumexp(-1, keepdim=True)),
        mask=FULL,
        places=Places.between(n_queries, n_keys),
        score=SCALED_DOT,
        relation=NO_RELATION,
        select=SOFT,
    )


@pytest.fixture(scope="session")
def document():
    torch.manual_seed(3)
    tokens = Tokens.numbered("word", N)
    layers = (random_layer(N, N),)
    one = Attention(tokens, tokens, layers, "query (source)", "key (source)", "soft", "full")
    return Record("", "", {"encoder": one})


@pytest.fixture(scope="session")
def short_answer():
    """Nine pieces about 3,000."""
    torch.manual_seed(4)
    sides = Tokens.numbered("said", 9), Tokens.numbered("read", 3000)
    layers = (random_layer(9, 3000),)
    one = Attention(*sides, layers, "query (target)", "key (source)", "soft", "full")
    return Record("", "", {"cross": one})


@pytest.fixture(scope="session")
def base_url(document, short_answer):
    records = {"doc": document, "short": short_answer}
    with running(build_app(Registry({}, saved=records))) as address:
        yield address.rstrip("/")


@pytest.fixture
def page(fresh):
    """What is asked for is counted, so nothing is known yet."""
    return fresh


@pytest.fixture
def atlas(page, base_url):
    """Opens the map of the document, all of it or around a cell."""

    def opened(**wishes):
        asked = "&".join(f"{name}={wish}" for name, wish in {"layer": 1, **wishes}.items())
        page.goto(f"{base_url}/#/atlas?{asked}")
        page.wait_for_selector(".far")
        return page

    return opened


def test_the_map_says_how_many_queries_were_used_and_in_the_end_that_it_is_exact(page, atlas):
    held, is_free = [], []
    page.route(
        re.compile(r"/tiles/.*rows=0"),
        lambda route: route.continue_() if is_free else held.append(route),
    )
    atlas(head=2)
    page.locator(".atlas [role=application]").focus()
    # seen from far, a tile is more than 4,096 cells a side
    for _ in range(4):
        page.keyboard.press("-")
    said = page.locator(".exactness")
    expect(said).to_contain_text("Sampled for now: 4 of 32 queries of each pixel")
    while not held:
        page.wait_for_timeout(50)
    # one at a time, and only when nothing else is asked for
    assert len(held) == 1
    is_free.append(True)
    held[0].continue_()
    expect(said).to_contain_text("All tiles in sight are exact.")


def test_the_summary_is_refined_until_all_queries_were_used(page, atlas, document):
    answers = []

    def seen(answer):
        if "/profile/" in answer.url:
            answers.append(answer)

    page.on("response", seen)
    atlas(head=1, far=10)
    expect(page.locator(".rows")).to_have_text(f"Exact: all {N:,} queries were used.")
    told = [json.loads(one.text()) for one in answers]
    assert [one["is_exact"] for one in told] == [False, True]
    assert [one["rows_used"] for one in told] == [525, N]
    weights = document.weights("encoder", 0, 0)
    far = (torch.arange(N)[:, None] - torch.arange(N)).abs() > 10
    best = (weights * far).flatten().topk(12).values.tolist()
    links = page.locator(".far button").all_inner_texts()
    shown = [float(one.rpartition(" ")[2]) for one in links]
    assert shown == pytest.approx(best, abs=6e-5)
    # on another head it begins anew; on this one it is known
    page.goto(page.url.replace("head=1", "head=2"))
    expect(page.locator(".rows")).to_contain_text("Sampled for now: 525 of 4,200 queries")
    n_before = len(answers)
    page.goto(page.url.replace("head=2", "head=1"))
    expect(page.locator(".rows")).to_contain_text("Exact: all")
    assert len(answers) <= n_before + 1


def test_tiles_that_leave_the_sight_are_given_up_and_few_are_asked_for_at_once(page, atlas):
    page.add_init_script(COUNTING)
    atlas()
    expect(page.locator(".exactness")).to_contain_text("All tiles in sight are exact.")
    failed = []
    page.route("**/tiles/**", lambda route: None)
    page.on("requestfailed", lambda request: failed.append(request.failure))
    page.locator(".atlas [role=application]").focus()
    for _ in range(9):
        page.keyboard.press("+")
    for _ in range(60):
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowDown")
        page.wait_for_timeout(120)
        if len(failed) > AT_ONCE:
            break
    assert len(failed) > AT_ONCE
    assert set(failed) == {"net::ERR_ABORTED"}
    assert page.evaluate("window.most") == AT_ONCE
    page.unroute_all(behavior="ignoreErrors")


def test_a_movement_is_counted_in_frames_by_the_page_itself(page, atlas):
    atlas()
    canvas = page.locator(".atlas canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 60, steps=60)
    page.mouse.up()
    said = page.locator(".rate")
    expect(said).to_contain_text("frames a second")
    rate = json.loads(said.get_attribute("data-rate"))
    assert 0 < rate["drawn"] <= rate["shown"] <= 65
    assert rate["seconds"] > 0.25
    assert rate["longest"] >= 16
    assert said.inner_text() == f"The last movement had {round(rate['drawn'])} frames a second."


def test_a_tile_on_its_way_is_drawn_from_what_is_coarser(page, atlas):
    atlas(atlasScale="linear")
    expect(page.locator(".exactness")).to_contain_text("All tiles in sight are exact.")
    page.route("**/tiles/**", lambda route: None)
    page.locator(".atlas [role=application]").focus()
    for _ in range(4):
        page.keyboard.press("+")
    expect(page.locator(".exactness")).to_contain_text("tiles in sight are on their way")
    colours = page.evaluate(
        "() => { const canvas = document.querySelector('.atlas canvas');"
        " const data = canvas.getContext('2d').getImageData(200, 200, 200, 200).data;"
        " return new Set(new Uint32Array(data.buffer)).size; }"
    )
    assert colours > 5
    page.unroute_all(behavior="ignoreErrors")


def test_every_piece_of_a_short_answer_has_a_row_that_can_be_pointed_at(page, atlas, short_answer):
    atlas(record="short", head=2)
    expect(page.locator(".exactness")).to_contain_text("All tiles in sight are exact.")
    expect(page.locator(".exactness")).to_contain_text(re.compile(r"A pixel is 1 by [24] cells\."))
    page.locator(".atlas").scroll_into_view_if_needed()
    box = page.locator(".atlas canvas").first.bounding_box()
    # rows of 24 pixels lie around the middle of what is right of and below the names
    middle = box["y"] + 84 + (box["height"] - 84) / 2
    weights = short_answer.weights("cross", 0, 1)
    for row in (-4, 0, 3):
        page.mouse.move(box["x"] + 84 + (box["width"] - 84) / 2, middle + 24 * row)
        cell = rf"query {5 + row} .* → key (\d+) .*: (\d\.\d{{4}})"
        key, weight = hear(page, ".readout", cell)
        assert float(weight) == pytest.approx(float(weights[4 + row, int(key) - 1]), abs=5.1e-5)


def test_a_longer_text_than_the_one_before_is_drawn_all_over(page, atlas, document):
    atlas(record="short")
    expect(page.locator(".exactness")).to_contain_text("All tiles in sight are exact.")
    page.locator("select", has=page.locator("option[value=doc]")).select_option("doc")
    expect(page.locator(".exactness")).to_contain_text("A pixel is 8 by 8 cells.")
    expect(page.locator(".exactness")).to_contain_text("All tiles in sight are exact.")
    settle(page)
    corners = page.evaluate(
        """() => { const canvas = document.querySelector(".atlas canvas"), strip = 84;
          const wide = canvas.width - strip, high = canvas.height - strip, half = high / 2 - 6;
          const colour = (x, y) => canvas.getContext("2d").getImageData(x, y, 1, 1).data.join();
          const middle = [strip + wide / 2, strip + high / 2], empty = colour(strip + 4, strip + 4);
          return [[-1, -1], [-1, 1], [1, -1], [1, 1]].map(([across, down]) =>
            colour(middle[0] + across * half, middle[1] + down * half) !== empty); }"""
    )
    assert corners == [True] * 4
    # and its numbers are its own
    page.locator(".atlas [role=application]").focus()
    page.keyboard.press("ArrowRight")
    cell = r"query (\d+) .* → key (\d+) .*: (\d\.\d{4})"
    query, key, weight = hear(page, ".readout", cell)
    wanted = (
        document.attention["encoder"]
        .layers[0]
        .tile_of(0, slice(int(query) - 1, int(query)), slice(int(key) - 1, int(key)))
    )
    assert float(weight) == pytest.approx(float(wanted), abs=5.1e-5)
