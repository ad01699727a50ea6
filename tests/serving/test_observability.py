"""Observability: events, facts, metrics and the schema file."""

import json
from pathlib import Path

import pytest

from regard.serving.registry import open_runs
from regard.serving.services import model_id
from regard.serving.v1 import openapi_of_v1
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import held, serving

ROOT = Path(__file__).parents[2]
TEXTS = ("a dog ate the food because it was hungry", "a b c", "the dog")
METRICS = {
    "regard_requests_total", "regard_request_seconds_count", "regard_active_requests",
    "regard_queue_texts", "regard_queue_tokens", "regard_queue_seconds_count",
    "regard_batch_texts_count", "regard_batch_tokens_count", "regard_batch_seconds_count",
    "regard_answer_tokens_total", "regard_answers_total", "regard_truncated_texts_total",
    "regard_memory_retries_total", "regard_device_bytes",
}  # fmt: skip


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_runs([make_run(tmp_path_factory.mktemp("v1") / "run", *TEXTS, max_len=48)])


@pytest.fixture(scope="module")
def served(registry):
    with serving(registry) as served:
        yield served


def test_metrics_count_requests_queues_batches_tokens_and_ends(served):
    served.predict(list(TEXTS), max_tokens=2)
    served.predict("a " * 40, truncate=True)
    lines = served.client.get("/metrics").text.splitlines()
    names = {line.partition("{")[0].partition(" ")[0] for line in lines if line[0] != "#"}
    assert names >= METRICS
    assert served.metric('regard_answers_total{reason="length",run="run"}') >= 3
    assert served.metric("regard_truncated_texts_total") == 1
    assert served.metric('regard_batch_tokens_sum{run="run"}') >= sum(len(t) + 1 for t in TEXTS)
    assert served.metric('regard_queue_texts{run="run"}') == 0


def test_info_says_which_model_what_it_takes_and_on_what_answers_depend(served, registry):
    said = served.client.get("/v1/info").json()
    trained = registry.run("run").trained
    (run,) = said["runs"]
    assert run["model"] == model_id("run", trained.path)
    assert (run["task"], run["reads"], run["max_source_tokens"]) == ("translation", "texts", 48)
    assert (run["default_beam"], run["ready"], run["workers_ready"]) == (5, True, 1)
    assert said["limits"]["max_waiting"] == 512
    assert "same seed" in said["deterministic"]
    # no path of this machine
    assert str(trained.path.parent) not in json.dumps(said)


def test_an_answer_says_all_that_repeats_it(served, registry):
    said = served.predict("the dog", n_best=3, alignments=True).json()
    trained = registry.run("run").trained
    (want,) = trained.predict(["the dog"], has_alignments=True)
    (answer,) = said["answers"]
    assert (answer["tokens"], answer["alignment"]) == (list(want.tokens), want.alignment)
    assert answer["score"] == pytest.approx(want.score, abs=1e-4)
    assert answer["n_best"][0]["text"] == want.text
    assert (said["run"], said["model"]) == ("run", model_id("run", trained.path))
    timing = said["timing"]
    assert 0 <= timing["queue_ms"] <= timing["total_ms"]
    assert timing["total_ms"] == pytest.approx(timing["queue_ms"] + timing["compute_ms"], abs=0.01)


def test_a_drawn_answer_is_the_same_for_the_same_seed_and_another_for_another(served):
    def drawn(seed):
        return [
            one["tokens"]
            for one in served.predict(list(TEXTS), sample=True, seed=seed).json()["answers"]
        ]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("options", [{"beam": 1}, {"sample": True, "seed": 3}])
def test_tokens_come_as_they_are_written(registry, options):
    with held(registry) as (served, model):
        events = served.events("the dog", **options)
        found = [next(events)]
        # the model is still writing while the first token is read
        model.hold()
        assert found[0][0] == "token"
        model.goes_on.set()
        found += events
    names = [name for name, _ in found]
    answer = found[-1][1]["answers"][0]
    assert names[-2:] == ["answer", "done"]
    tokens = [data["token"] for name, data in found if name == "token" and data["token"]]
    assert tokens == answer["tokens"]
    assert "".join(data["delta"] for name, data in found if name == "token") == answer["text"]


def test_a_beam_streams_each_finished_text_of_a_list(served, registry):
    found = list(served.events(list(TEXTS)))
    answers = {data["index"]: data["text"] for name, data in found if name == "answer"}
    want = registry.run("run").trained.predict(TEXTS)
    assert answers == dict(enumerate(one.text for one in want))
    assert not [name for name, _ in found if name == "token"]


def test_a_mistake_in_a_request_for_events_is_told_before_them(served):
    said = served.predict("a", stream=True, beem=2)
    assert said.status_code == 422
    assert "Did you mean 'beam'?" in said.json()["error"]["message"]


def test_a_stream_whose_client_leaves_ends_its_search(registry):
    with held(registry) as (served, model):
        body = {"texts": "a b c", "beam": 1, "stream": True}
        with clients.connected(served.address) as connection:
            clients.post(connection, "v1/predict", body)
            assert clients.came(lambda: connection.recv(10_000))
            model.hold()
            steps = len(model.rows)
        assert clients.came(lambda: not served.services.under_way)
        model.goes_on.set()
        assert clients.came(lambda: not served.services.runs["run"].is_busy)
        assert len(model.rows) <= steps + 3


def test_the_schema_file_is_what_the_server_says():
    # written anew by python docs/build.py
    written = json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert written == openapi_of_v1()


def test_every_field_of_the_schema_is_described_or_speaks_for_itself():
    schemas = openapi_of_v1()["components"]["schemas"]
    asked = schemas["PredictionRequest"]["properties"]
    assert {"texts", "pictures", "beam", "n_best", "stream", "timeout_ms"} <= set(asked)
    bare = [name for name, one in asked.items() if not one.get("description")]
    assert bare == []


def test_the_page_of_the_interface_comes_from_this_server_alone(served):
    page = served.client.get("/docs")
    assert page.status_code == 200
    assert "http" not in page.text.replace("http-equiv", "")
    script = served.client.get("/api.js")
    assert script.status_code == 200
    assert "/openapi.json" in script.text
