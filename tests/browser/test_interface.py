"""The page of the interface in the browser: its tables, its trial request, and no other host."""

import pytest
from playwright.sync_api import expect

from regard.serving.registry import open_runs
from tests.browser.looking import violations
from tests.factories import make_run
from tests.serving.services import serving

pytestmark = pytest.mark.browser

SCRIPT = """async () => {
  const answer = await fetch("/v1/predict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ texts: ["a b"], beam: 1, stream: true }),
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let said = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) said += part.value;
  return said;
}"""


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("v1") / "run", "a b c", "the dog", max_len=48)
    with serving(open_runs([run], device="cpu")) as served:
        yield served


@pytest.fixture(scope="session")
def base_url(served):
    return served.address


def test_the_page_draws_every_route_and_sends_a_request(fresh, served):
    fresh.goto("/docs")
    routes = fresh.locator("#routes h2")
    expect(routes.first).to_have_text("POST /v1/predict")
    paths = served.client.get("/openapi.json").json()["paths"]
    assert routes.count() == sum(map(len, paths.values()))
    fields = fresh.locator("#routes section").first.locator("table").first
    expect(fields).to_contain_text("n_best")
    expect(fields).to_contain_text("Answers for each text, best first.")
    fresh.locator("#body").fill('{"texts": "a b", "beam": 1}')
    fresh.get_by_role("button", name="Send").click()
    answer = served.predict("a b", beam=1).json()["answers"][0]
    expect(fresh.locator("#answer")).to_contain_text('"finish_reason": "length"')
    expect(fresh.locator("#answer")).to_contain_text(answer["text"])
    assert violations(fresh) == []


def test_a_page_reads_the_events_of_a_stream(fresh, served):
    fresh.goto("/docs")
    said = fresh.evaluate(SCRIPT)
    names = [line.removeprefix("event: ") for line in said.splitlines() if line.startswith("event")]
    assert set(names[:-2]) == {"token"}
    assert names[-2:] == ["answer", "done"]
