"""A run that is still being trained, in the studio: curves grow, and it is used once it can be."""

import json
import shutil

import pytest
from playwright.sync_api import expect

from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.browser.looking import violations
from tests.factories import make_run
from tests.serving.serving import TEXTS

pytestmark = pytest.mark.browser

FIRST = '{"step": 1, "train_loss": 4.0, "learning_rate": 0.001, "seconds": 0.5}\n'
SECOND = '{"step": 2, "train_loss": 3.25, "learning_rate": 0.001, "seconds": 0.5}\n'
VALID = '{"step": 2, "valid_loss": 3.5, "exact_match": 0.75, "seconds": 1.0}\n'
SAMPLES = [
    {"step": 1, "source": "a dog", "reference": "dog a", "answer": "x", "links": []},
    {"step": 2, "source": "a dog", "reference": "dog a", "answer": "dog a", "links": [[1, 0]]},
]
GOING_AT_ONCE = """
new MutationObserver((_, watching) => {
  if (!document.querySelector("nav a")) return;
  watching.disconnect();
  location.hash = "#/training";
}).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    """Two runs of which only the beginning is written; their weights lie beside them."""
    folder = tmp_path_factory.mktemp("begun")
    for name in ("curves", "checkpoint"):
        run = make_run(folder / name, *TEXTS, max_len=48)
        (run / "model.safetensors").rename(folder / f"{name}-weights")
        (run / "metrics.jsonl").write_text(FIRST)
    return folder


@pytest.fixture(scope="session")
def base_url(begun):
    runs = [begun / "curves", begun / "checkpoint"]
    with running(build_app(open_runs(runs, device="cpu"))) as address:
        yield address.rstrip("/")


def test_curves_scores_and_samples_grow_while_a_run_trains(fresh, begun):
    fresh.goto("/")
    expect(fresh.locator("nav a")).to_have_text(["Worked example", "Training", "Course"])
    fresh.goto("/#/training?run=curves")
    expect(fresh.locator(".state")).to_contain_text("Training")
    expect(fresh.locator(".scores")).to_contain_text("4")
    with (begun / "curves" / "metrics.jsonl").open("a") as file:
        file.write(SECOND + VALID + '{"step": 3, "tr')
    (begun / "curves" / "samples.jsonl").write_text(
        "\n".join(map(json.dumps, SAMPLES)) + '\n{"step": 3'
    )
    expect(fresh.locator(".scores")).to_contain_text("0.75")
    expect(fresh.locator(".scores")).to_contain_text("3.25")
    expect(fresh.locator(".samples .right .said")).to_have_text("dog a")
    fresh.get_by_role("slider", name="at update").fill("0")
    expect(fresh.locator(".samples .said")).to_have_text("x")
    assert violations(fresh) == []


def test_an_address_given_before_the_page_is_painted_is_gone_to(fresh):
    fresh.add_init_script(GOING_AT_ONCE)
    fresh.goto("/")
    expect(fresh.locator("main h1")).to_have_text("Training")


def test_a_run_has_its_other_views_from_its_first_checkpoint_on(fresh, begun):
    fresh.goto("/#/training")
    expect(fresh.locator("nav a")).to_have_text(["Worked example", "Training", "Course"])
    place = begun / "checkpoint" / "checkpoints" / "step-000002"
    place.mkdir(parents=True)
    shutil.copy(begun / "checkpoint-weights", place / "model.safetensors")
    expect(fresh.locator("nav a").first).to_have_text("Translate")
    fresh.goto("/#/answer?run=checkpoint&text=a dog&target=dog")
    expect(fresh.locator(".map canvas")).to_be_visible()
    expect(fresh.locator("footer")).to_contain_text("(update 2)")
