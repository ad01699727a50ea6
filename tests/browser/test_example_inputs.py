"""Where examples of a run's data may not be shown, the studio says so in a line."""

import pytest
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.browser.looking import violations
from tests.captioning import trained_captioner
from tests.factories import make_run
from tests.serving.serving import TEXTS

pytestmark = pytest.mark.browser

ELSEWHERE = {
    "texts": ('valid = { name = "copy", count = 5 }', 'name = "tsv"\npath = "{}/valid.tsv"'),
    "pictures": (
        '[data.valid]\nname = "scenes"\ncount = 6\n',
        'name = "caption_lines"\npath = "{}/valid.jsonl"\npictures = "{}/photos"',
    ),
}


@pytest.fixture(scope="session")
def unknown(tmp_path_factory):
    """Two runs whose data are files that they do not hold and that no card records."""
    folder = tmp_path_factory.mktemp("unknown")
    (folder / "photos").mkdir()
    for name in ("valid.tsv", "valid.jsonl"):
        (folder / name).write_text("not of the run\n")
    runs = {
        "texts": make_run(folder / "texts", *TEXTS),
        "pictures": trained_captioner(folder / "made").rename(folder / "pictures"),
    }
    for name, run in runs.items():
        before, after = ELSEWHERE[name]
        recipe = (run / "recipe.toml").read_text()
        assert before in recipe
        own = recipe.replace(before, "") + "\n[data.valid]\n" + after.replace("{}", str(folder))
        (run / "recipe.toml").write_text(own)
        (run / "card.md").unlink(missing_ok=True)
    return open_runs(list(runs.values()), device="cpu")


@pytest.fixture(scope="session")
def base_url(unknown):
    with running(build_app(unknown)) as address:
        yield address.rstrip("/")


@pytest.mark.parametrize(("view", "run"), [("answer", "texts"), ("captions", "pictures")])
def test_a_run_whose_data_are_not_known_says_why_it_offers_none(page, unknown, view, run):
    page.goto(f"/#/{view}?run={run}")
    said = page.locator(".ask").get_by_text("No examples of this run's data:")
    expect(said).to_have_text(unknown.run(run).example_inputs().why_none)
    expect(said).to_contain_text("is neither part of the run nor what card.md records.")
    expect(page.get_by_text("From this run's data:")).to_have_count(0)
    assert violations(page) == []
