"""Documents in the studio: short addresses and offers, answers that end, words in sight."""

import json
import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.browser.looking import settle, violations
from tests.factories import make_run
from tests.serving.serving import write_card

pytestmark = pytest.mark.browser

N_WORDS = 700
DOCUMENT = " ".join(f"word{place:03d}" for place in reversed(range(N_WORDS)))
SHORT = "word005 word000"


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    """A run whose own data are documents."""
    folder = tmp_path_factory.mktemp("documents")
    lines = [json.dumps({"source": text, "target": "word001"}) for text in (DOCUMENT, SHORT)]
    (folder / "papers.jsonl").write_text("".join(f"{line}\n" for line in lines))
    run = make_run(folder / "papers", DOCUMENT, kind="words", max_len=1000)
    recipe = (run / "recipe.toml").read_text()
    papers = f'valid = {{ name = "jsonl", path = "{folder / "papers.jsonl"}" }}'
    own = re.sub(r'valid = \{ name = "copy", count = \d+ \}', papers, recipe)
    assert own != recipe
    (run / "recipe.toml").write_text(own)
    write_card(run)
    return open_runs([run], device="cpu")


@pytest.fixture(scope="session")
def base_url(papers):
    with running(build_app(papers)) as address:
        yield address.rstrip("/")


def _asked(page, text, most):
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("longest answer, in tokens").fill(str(most))
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector(".answers")
    settle(page)


def _open(page, **params):
    query = "&".join(f"{name}={value}" for name, value in params.items())
    page.goto(f"/#/answer?{query}")
    page.wait_for_selector(".answers")
    settle(page)


def test_a_document_is_offered_by_its_beginning(fresh):
    _open(fresh, text=SHORT, most=2)
    offer = fresh.get_by_role("button", name=re.compile(r"\(700 words\)$"))
    said = offer.inner_text()
    assert said.startswith("word699 word698") and len(said) < 120
    offer.click()
    expect(fresh.get_by_label("Text", exact=True)).to_have_value(DOCUMENT)


def test_an_address_stays_short_and_still_brings_the_document_back(fresh):
    _open(fresh, text=SHORT, most=2)
    _asked(fresh, DOCUMENT, 3)
    assert len(fresh.url) < 200
    assert parse_qs(urlparse(fresh.url).fragment.partition("?")[2])["most"] == ["3"]
    fresh.reload()
    fresh.wait_for_selector(".answers")
    for view in ("Translate", "Atlas"):
        fresh.get_by_role("link", name=view, exact=True).click()
        expect(fresh.get_by_label("Text", exact=True)).to_have_value(DOCUMENT)
        expect(fresh.get_by_label("longest answer, in tokens")).to_have_value("3")


def test_a_link_to_a_document_of_another_tab_shows_what_is_shown_at_first(fresh):
    _open(fresh, text="document-1a2b-5400", most=1)
    expect(fresh.get_by_label("Text", exact=True)).to_have_value(DOCUMENT)


def test_an_answer_ends_where_somebody_says(fresh, papers):
    _open(fresh, text=SHORT, most=2)
    field = fresh.get_by_label("longest answer, in tokens")
    assert field.get_attribute("placeholder") == "300"
    _asked(fresh, SHORT, 4)
    words = fresh.get_by_role("toolbar", name="query (target)").get_by_role("button")
    assert words.count() == 5
    assert words.last.inner_text() == "<eos>"
    expect(fresh.locator(".answers label").first).to_contain_text("cut at the longest allowed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_heaviest_word_of_a_document_is_in_sight_and_the_map_is_near(fresh, scheme):
    fresh.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    _open(fresh, text=SHORT, most=2)
    _asked(fresh, DOCUMENT, 2)
    line = fresh.get_by_role("toolbar", name="key (source)")
    box = line.bounding_box()
    assert box["height"] < 0.5 * fresh.viewport_size["height"]
    said = fresh.locator(".readout").first.inner_text()
    heaviest = re.search(r"looks at “\W*(\w+)", said)[1]
    word = line.get_by_role("button", name=heaviest, exact=True).bounding_box()
    assert box["y"] <= word["y"] and word["y"] + word["height"] <= box["y"] + box["height"]
    # it is far from the first words, which were in sight at first
    assert line.evaluate("line => line.scrollTop") > 2 * box["height"]
    assert violations(fresh) == []
