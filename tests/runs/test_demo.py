"""The demo's measurements: unseen days, true links, a head chosen on others."""

import datetime
import re
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.data import Example
from regard.data.dates import LANGUAGES, write
from regard.errors import RunError, SettingError
from regard.evaluating import AlignmentCounts, DecoderRow, HeadView
from regard.evaluating.accuracy import Share
from regard.evaluating.alignment import digit_gold
from regard.evaluating.attention_links import LEFT_OUT
from regard.recipes.recipe import examples
from regard.runs import demo
from regard.runs.demo import (
    DateAnswer,
    Findings,
    aligned,
    answers,
    check_out,
    demo_hardware,
    demo_recipe,
    to_choose_from,
    to_show,
    unseen,
    write_demo_report,
)
from tests.factories import make_run

SMALL = ("data.train.count=1500", "data.valid.count=120", "data.test.count=150")
DATE = write(datetime.date(2029, 5, 9), "de", "EEEE, d. MMMM y")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    texts = [DATE.source, DATE.targets[0], "0123456789"]
    return regard.load(make_run(tmp_path_factory.mktemp("demo") / "run", *texts))


def test_two_thousand_dates_are_asked_in_every_language():
    choice = demo_recipe().data.test
    assert choice.settings == {"count": 2000}, "and no languages are left out"
    assert {one.group for one in unseen(demo_recipe(SMALL))} == set(LANGUAGES)


def test_no_day_that_is_asked_or_chosen_by_is_in_a_training_example():
    recipe = demo_recipe(SMALL)
    learned = {one.targets[0] for one in examples(recipe.data.train, "train")()}
    asked = {one.targets[0] for one in unseen(recipe)}
    others = {one.targets[0] for one in to_choose_from(recipe)}
    assert not learned & asked
    assert not learned & others
    assert not asked & others
    assert len(others) == 120 < demo.MAX_ALIGNED_DATES


def test_a_recipe_without_a_test_split_is_refused():
    recipe = replace(demo_recipe(), data=replace(demo_recipe().data, test=None))
    with pytest.raises(SettingError, match=r"demo: the recipe has no data\.test; name the dates"):
        unseen(recipe)


def test_links_are_between_characters_and_digits_and_nothing_else(trained):
    assert DATE.source == "Mittwoch, 9. Mai 2029"
    weights, pieces, gold = aligned(trained, DATE)
    assert pieces.source == [*range(21), LEFT_OUT]
    assert pieces.target == [0, 1, 2, 3, LEFT_OUT, 5, 6, LEFT_OUT, 8, 9]
    assert gold == digit_gold(DATE.source, "2029-05-09", DATE.links)
    assert gold.sure == {(17, 0), (18, 1), (19, 2), (20, 3), (10, 9)}
    assert {s for s, t in gold.possible if t == 5} == {13, 14, 15}
    record = trained.look(DATE.source, DATE.targets[0])
    assert weights.shape == (2, 2, 11, 22)
    for layer in range(2):
        for head in range(2):
            assert_close(weights[layer, head], record.weights("cross", layer, head))


def test_answers_are_greedy_search_s_and_no_longer_than_needed(trained):
    asked = [DATE, Example("9. Mai", ("x",), group="de")]
    found = dict(answers(trained, asked))
    assert [found[place].example for place in range(2)] == asked
    assert all(len(one.text) <= demo.MAX_ANSWER_CHARACTERS for one in found.values())
    assert DateAnswer(DATE, "2029-05-09").is_right
    assert not DateAnswer(DATE, "2029-05-9").is_right


def _answered(*groups):
    return [DateAnswer(Example(f"{n}", (f"{n}",), group=g), f"{n}") for n, g in enumerate(groups)]


def test_the_first_date_of_each_language_is_shown_and_others_fill_up():
    found = to_show(_answered("xx", "de", "fr", "de", "yy"), languages=("fr", "de", "zh"))
    assert [(one.example.group, one.text) for one in found] == [
        ("fr", "2"),
        ("de", "1"),
        ("xx", "0"),
    ]


def _counts(wrong):
    return AlignmentCounts(100, 100, 100, 100 - wrong, 100 - wrong)


def _findings(records=()):
    heads = {
        HeadView(0, 0): 30,
        HeadView(0, 1): 20,
        HeadView(0, 0, DecoderRow.NEXT): 10,
        HeadView(0, 1, DecoderRow.NEXT): 40,
    }
    heads |= {HeadView(0, None, row): 1 for row in DecoderRow} | {
        HeadView(None, None, row): 1 for row in DecoderRow
    }
    chosen = {view: _counts(wrong) for view, wrong in heads.items()}
    reported = {view: _counts(wrong + 5) for view, wrong in heads.items()}
    answered = [*_answered("de", "fr", "de"), DateAnswer(Example("<b>", ("y",), group="fr"), "z")]
    return Findings(answered, chosen, reported, records)


def test_the_head_is_chosen_elsewhere_and_means_are_no_heads():
    found = _findings()
    assert found.best.view == HeadView(0, 0, DecoderRow.NEXT)
    assert found.best.reported_on.error_rate == pytest.approx(0.15)
    assert found.pictured == HeadView(0, 1), "the best whose row is the one that predicts"
    assert found.by_language == {"French": Share(1, 2), "German": Share(2, 2)}
    assert found.accuracy == Share(3, 4)


def test_the_page_has_every_part_and_asks_nothing_of_the_network(trained, tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "recipe.toml").write_text("[training]\nsteps = 3\n")
    torch.manual_seed(3)
    found = _findings([trained.look(DATE.source, "2029-05-09")])
    page = write_demo_report(tmp_path, found).read_text()
    assert not re.search(r"https?://|<script|<link|url\(", page)
    assert "3 of 4" in page
    assert "<b>" not in page
    assert "75.0 %" in page
    assert page.count("<td>50.0 %</td>") == 1
    assert "German" in page
    assert "15.0 (chosen)" in page
    # one for the date, and one for each of its four heads
    assert page.count('<figure class="map">') == 1 + 4


def test_the_demo_takes_one_thread_wherever_it_runs_and_gives_the_others_back():
    torch.set_num_threads(2)
    with demo_hardware().on_threads():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_only_an_empty_directory_or_the_same_run_is_gone_on_with(tmp_path):
    recipe = demo_recipe(SMALL)
    check_out(tmp_path / "new", recipe)
    check_out(tmp_path, recipe)
    (tmp_path / "a file").touch()
    with pytest.raises(RunError, match="is a file; a run is a folder"):
        check_out(tmp_path / "a file", recipe)
    (tmp_path / "a file").unlink()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"demo: '.*' is not empty and holds no run; nothing"):
        check_out(tmp_path, recipe)
    make_run(tmp_path)
    with pytest.raises(RunError, match=r"demo: '.*' holds a run of another recipe or seed, which"):
        check_out(tmp_path, recipe)
