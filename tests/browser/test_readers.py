"""Runs that only read, in the studio: hidden words and how sure the model is of each."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.browser.looking import settle, violations
from tests.factories import make_run
from tests.serving.serving import TEXTS, make_readers

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def readers(tmp_path_factory):
    """Runs that only read, and one that writes."""
    folder = tmp_path_factory.mktemp("readers")
    registry = make_readers(folder)
    writer = open_runs([make_run(folder / "writer", *TEXTS, max_len=48)], device="cpu")
    return replace(registry, runs={**registry.runs, **writer.runs})


@pytest.fixture(scope="session")
def base_url(readers):
    with running(build_app(readers)) as address:
        yield address.rstrip("/")


def test_hidden_words_have_several_answers_each_with_its_probability(page, readers):
    page.goto("/#/answer?run=words&text=a [MASK] [MASK] ate")
    page.wait_for_selector(".answers")
    settle(page)
    trained = readers.runs["words"].trained
    want = trained.predict(
        ["a [MASK] [MASK] ate"], search=replace(trained.default_search(), n_best=5)
    )[0]
    said = page.locator(".answers label")
    expect(said).to_have_count(5)
    chances = [{word.text: word.probability for word in some} for some in want.candidates]
    for label, one in zip(said.all(), want.n_best, strict=True):
        sure = ", ".join(
            f"{word} {100 * some[word]:.1f} %"
            for word, some in zip(one.tokens, chances, strict=True)
        )
        expect(label.locator(".quiet")).to_have_text(sure)
    # where it looked as it read is the same for all of them
    before = page.locator(".readout").inner_text()
    said.nth(3).locator("input").check()
    expect(page.locator(".readout")).to_have_text(before, use_inner_text=True)
    assert violations(page) == []


def test_a_text_without_a_hidden_word_is_shown_with_a_note(page):
    page.goto("/#/answer?run=words&text=a dog ate")
    expect(page.locator(".note").first).to_contain_text("no word is hidden")
    expect(page.locator(".answers label")).to_have_count(1)
    expect(page.locator(".answers .quiet")).to_have_text("")


def test_an_answer_of_one_s_own_is_asked_for_only_where_it_is_read(page, faults):
    page.goto("/#/answer?run=tags&text=a dog ate")
    page.wait_for_selector(".answers")
    expect(page.get_by_label("Answer", exact=True)).to_have_count(0)
    # unless one stands in the address, and somebody must be able to take it out
    page.goto("/#/answer?run=tags&text=a dog ate&target=dog")
    expect(page.get_by_role("alert")).to_contain_text("Leave it out")
    faults.clear()
    page.get_by_label("Answer", exact=True).fill("")
    page.get_by_role("button", name="Tag", exact=True).click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_longest_answer_in_the_address_is_not_asked_of_a_run_that_writes_none(page):
    most = page.get_by_label("longest answer, in tokens")
    page.goto("/#/answer?run=words&text=a [MASK] ate&most=5")
    expect(page.locator(".answers label")).to_have_count(5)
    expect(most).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    # what was said of one run stays for the next that writes
    page.get_by_role("combobox", name="run", exact=True).select_option("writer")
    expect(most).to_have_value("5")
    expect(page.get_by_text("cut at the longest allowed").first).to_be_visible()
    page.get_by_role("combobox", name="run", exact=True).select_option("vectors")
    expect(page.locator(".note").first).to_contain_text("writes nothing")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_runs_side_by_side_are_asked_each_by_what_it_writes(page):
    page.goto("/#/compare?run=words&b=writer&kind=encoder&text=a dog ate&most=2")
    for letter, run in (("A", "words"), ("B", "writer")):
        expect(page.get_by_role("combobox", name=f"run {letter}", exact=True)).to_have_value(run)
        expect(page.get_by_role("application", name=f"{letter}: encoder")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    most = page.get_by_label("longest answer, in tokens")
    expect(most).to_have_value("2")
    answers = page.get_by_role("combobox", name="answer B", exact=True).locator("option")
    expect(answers.first).to_have_text(re.compile(r"^1\. ..$"))
    page.get_by_role("combobox", name="run B", exact=True).select_option("vectors")
    expect(most).to_have_count(0)
