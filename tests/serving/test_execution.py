"""Execution: batches, and what a worker does with jobs that fail, leave, or come too late."""

import asyncio
import threading
import time

import httpx
import pytest
import torch

from regard.decoding import Greedy, Sampling
from regard.errors import SettingError
from regard.serving import prediction_jobs
from regard.serving.prediction_schemas import SearchOptions
from regard.serving.registry import Registry, open_runs
from regard.serving.request_queue import Job, QueueFull, RequestQueue
from regard.serving.run_service import ServiceSettings
from regard.serving.worker import measured_batch
from regard.tasks.predictions import Request
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import HeldModel, ThreadWorker, held, serving, with_stepper
from tests.serving.serving import make_readers

TEXTS = ("a dog ate the food because it was hungry", "a b c", "the dog", "hungry", "food ate")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_runs([make_run(tmp_path_factory.mktemp("v1") / "run", *TEXTS, max_len=48)])


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return make_readers(tmp_path_factory.mktemp("readers"))


@pytest.fixture(scope="module")
def trained(registry):
    return registry.run("run").trained


def _job(number, n_tokens, beam=5):
    return Job(number, "", "", SearchOptions(beam=beam), n_tokens, 0.0, lambda job, message: None)


def test_a_batch_holds_jobs_of_like_length_within_its_tokens_and_always_the_oldest():
    queue = RequestQueue(most=100, most_tokens=1000)
    queue.put([_job(1, 9), _job(2, 2), _job(3, 10), _job(4, 8), _job(5, 2)])
    assert [job.number for job in queue.take(20)] == [1, 3]
    assert [job.number for job in queue.take(20)] == [2, 5]
    assert [job.number for job in queue.take(3)] == [4]
    assert (queue.take(20), len(queue), queue.n_tokens) == ([], 0, 0)


def test_jobs_with_other_options_wait_for_another_batch():
    queue = RequestQueue(most=100, most_tokens=1000)
    queue.put([_job(1, 2), _job(2, 2, beam=1), _job(3, 2)])
    assert [job.number for job in queue.take(20)] == [1, 3]
    assert [job.number for job in queue.take(20)] == [2]


def test_a_queue_takes_all_jobs_of_a_request_or_none_and_says_when_to_come_again():
    queue = RequestQueue(most=3, most_tokens=100)
    queue.put([_job(1, 10), _job(2, 80)])
    with pytest.raises(
        QueueFull, match="2 texts of 90 tokens wait for this run; at most 3"
    ) as full:
        queue.put([_job(3, 2), _job(4, 2)])
    assert (len(queue), full.value.retry_after) == (2, 1)
    queue.note_speed(n_tokens=10, seconds=1.0)
    # half of 90 tokens at 10 a second
    assert queue.retry_after() == 4


def test_requests_that_wait_together_are_answered_in_one_batch_as_each_is_alone(registry, trained):
    with held(registry) as (served, model):
        model.hold()
        first = served.predict_in_thread("a")
        assert model.is_stepping.wait(clients.PATIENCE)
        others = [served.predict_in_thread(text, n_best=2) for text in TEXTS]
        assert clients.came(lambda: len(served.services.runs["run"].queue) == len(TEXTS))
        model.rows.clear()
        model.goes_on.set()
        said = [wait().json()["answers"][0] for wait in others]
        assert first().status_code == 200
        # all rows of the five in one step, five hypotheses each
        assert max(model.rows) == 5 * len(TEXTS)
    for text, one in zip(TEXTS, said, strict=True):
        (want,) = trained.predict([text])
        assert (one["text"], one["tokens"]) == (want.text, list(want.tokens))
        assert one["score"] == pytest.approx(want.score, abs=1e-4)
        assert len(one["n_best"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"sample": True, "seed": 7, "n_best": 2},
        {"alignments": True},
        {"prefix": "the"},
    ],
)
def test_answers_are_those_of_predict_with_the_same_options(registry, trained, options):
    with serving(registry) as served:
        said = served.predict(list(TEXTS), **options).json()["answers"]
        again = served.predict(list(TEXTS), **options).json()["answers"]
    assert said == again
    search = trained.default_search()
    if options.get("sample"):
        search = Sampling(n_samples=2, seed=7, limits=search.limits)
    elif options.get("beam") == 1:
        search = Greedy(limits=search.limits)
    requests = [
        Request(text, options.get("prefix", ""), seed=place) for place, text in enumerate(TEXTS)
    ]
    want = trained.predict(requests, search=search, has_alignments=options.get("alignments", False))
    assert [(one["text"], one["alignment"]) for one in said] == [
        (one.text, one.alignment) for one in want
    ]


class Failing:
    """A stepper that fails where a source has a number of tokens, or a batch a number of rows."""

    def __init__(self, model):
        self.model, self.select, self.branch, self.step = (
            model,
            model.select,
            model.branch,
            model.step,
        )
        self.bad_length, self.most_rows, self.starts = 0, 10**6, []

    def start(self, source):
        self.starts.append(len(source))
        if len(source) > self.most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        if self.bad_length in (source != 0).sum(1).tolist():
            raise RuntimeError("this source breaks the model")
        return self.model.start(source)


def _failing(registry, **settings):
    models = []

    def launch(trained):
        other, model = with_stepper(trained, Failing)
        models.append(model)
        return ThreadWorker(other)

    return models, serving(registry, ServiceSettings(**settings), launch)


def test_a_text_that_breaks_the_model_fails_alone(registry, trained, capfd):
    models, opened = _failing(registry)
    with opened as served:
        models[0].bad_length = len("a b c") + 1
        said = served.predict(list(TEXTS)).json()["answers"]
        assert [one["error"] is None for one in said] == [True, False, True, True, True]
        assert said[1]["error"] == {
            "kind": "internal",
            "message": "serve: text 2: the model could not answer; the server's log says why.",
        }
        assert served.predict("the dog").status_code == 200
    assert [one["text"] for one in said if one["text"]] == [
        trained.predict([text])[0].text for text in TEXTS if text != "a b c"
    ]
    assert "this source breaks the model" in capfd.readouterr().err


def test_a_batch_that_does_not_fit_in_memory_is_halved_once(registry):
    models, opened = _failing(registry)
    with opened as served:
        models[0].most_rows, models[0].starts = 3, []
        said = served.predict(list(TEXTS))
        assert said.status_code == 200
        assert all(one["error"] is None for one in said.json()["answers"])
        assert models[0].starts == [5, 2, 3]
        models[0].most_rows, models[0].starts = 2, []
        said = served.predict(list(TEXTS)).json()["answers"]
        assert models[0].starts == [5, 2, 3]
        assert [one["error"] and one["error"]["kind"] for one in said].count("out_of_memory") == 3
        models[0].most_rows = 0
        alone = served.predict("a b c")
        assert (alone.status_code, alone.json()["error"]["kind"]) == (503, "out_of_memory")
        # the process lives, and answers once there is memory
        models[0].most_rows = 10
        assert served.predict("a b c").status_code == 200
        assert served.metric("regard_memory_retries_total") == 3


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/v1/info"])
def test_health_is_answered_while_the_model_works(registry, path):
    with held(registry) as (served, model):
        model.hold()
        waits = [served.predict_in_thread(text) for text in TEXTS]
        assert model.is_stepping.wait(clients.PATIENCE)
        # the model cannot go on before this is answered
        assert served.client.get(path).status_code == 200
        model.goes_on.set()
        assert [wait().status_code for wait in waits] == [200] * len(TEXTS)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_client_that_leaves_frees_its_rows_at_the_next_step(registry, beam):
    with held(registry) as (served, model):
        model.hold()
        body = {"texts": "a b c", "beam": beam}
        with clients.connected(served.address) as connection:
            clients.post(connection, "v1/predict", body)
            assert model.is_stepping.wait(clients.PATIENCE)
            steps = len(model.rows)
        route = 'regard_requests_total{route="/v1/predict",status="499"}'
        assert clients.came(lambda: served.metric(route) == 1)
        model.goes_on.set()
        assert clients.came(lambda: not served.services.runs["run"].is_busy)
        # the step that was under way, and at most the next one
        assert len(model.rows) <= steps + 1


def test_a_client_that_leaves_while_it_waits_is_never_begun(registry):
    with held(registry) as (served, model):
        model.hold()
        first = served.predict_in_thread("a")
        assert model.is_stepping.wait(clients.PATIENCE)
        with clients.connected(served.address) as connection:
            clients.post(connection, "v1/predict", {"texts": "the dog"})
            assert clients.came(lambda: len(served.services.runs["run"].queue) == 1)
        assert clients.came(lambda: len(served.services.runs["run"].queue) == 0)
        model.goes_on.set()
        assert first().status_code == 200
        assert served.metric('regard_batch_texts_count{run="run"}') == 1


def test_a_client_that_leaves_while_its_text_is_measured_is_never_begun(registry, monkeypatch):
    measure, left = prediction_jobs._measured, []

    async def slow(*asked):
        (gathering,) = served.services.under_way.values()
        while not gathering.done.cancelled():
            await asyncio.sleep(0.005)
        left.append(gathering)
        return await measure(*asked)

    with serving(registry) as served:
        monkeypatch.setattr(prediction_jobs, "_measured", slow)
        with clients.connected(served.address) as connection:
            clients.post(connection, "v1/predict", {"texts": "the dog"})
            assert clients.came(lambda: bool(served.services.under_way))
        assert clients.came(lambda: bool(left))
        assert clients.came(lambda: not served.services.under_way)
        assert served.metric('regard_batch_texts_count{run="run"}') == 0


@pytest.mark.parametrize("beam", [1, 4])
def test_a_request_is_cancelled_by_its_id_with_what_is_written(registry, beam):
    with held(registry) as (served, model):
        model.hold()
        found = []
        asked = {"texts": ["a b c", "the dog"], "beam": beam}
        headers = {"X-Request-Id": "mine"}
        thread = threading.Thread(
            target=lambda: found.append(
                served.client.post("/v1/predict", json=asked, headers=headers)
            )
        )
        thread.start()
        assert model.is_stepping.wait(clients.PATIENCE)
        with httpx.Client(base_url=served.address) as other:
            again = other.post("/v1/predict", json=asked, headers=headers)
            assert (again.status_code, "id mine is under way" in again.text) == (409, True)
            assert other.delete("/v1/requests/mine").json() == {"id": "mine", "cancelled": 2}
            model.goes_on.set()
            thread.join(clients.PATIENCE)
            said = found[0].json()["answers"]
            assert [one["finish_reason"] for one in said] == ["cancelled", "cancelled"]
            assert all(len(one["tokens"]) <= 3 for one in said)
            gone = other.delete("/v1/requests/mine")
            assert (gone.status_code, gone.json()["error"]["kind"]) == (404, "unknown_request")


def test_a_deadline_ends_the_search_with_what_is_written(registry):
    with held(registry) as (served, model):
        model.hold()
        wait = served.predict_in_thread(["a b c", ""], timeout_ms=100)
        assert model.is_stepping.wait(clients.PATIENCE)
        time.sleep(0.15)
        model.goes_on.set()
        said = wait()
        assert said.status_code == 504
        body = said.json()
        assert (body["partial"], body["error"]["kind"]) == (True, "deadline")
        assert "the time of 100 ms was over" in body["error"]["message"]
        assert [one["finish_reason"] for one in body["answers"]] == ["deadline", "eos"]
        assert len(body["answers"][0]["tokens"]) <= 3


def test_a_deadline_holds_in_the_queue_and_within_a_step(registry):
    with held(registry) as (served, model):
        model.hold()
        stuck = served.predict_in_thread("a", timeout_ms=50)
        assert model.is_stepping.wait(clients.PATIENCE)
        waited = served.predict("the dog", timeout_ms=50)
        assert waited.status_code == 504
        assert "before the model began" in waited.json()["answers"][0]["error"]["message"]
        # the step goes on and on: the answer does not wait for it
        assert stuck().status_code == 504
        model.goes_on.set()


def test_a_step_that_hangs_makes_the_run_unready_until_another_worker_is_started(registry):
    models = []

    def launch(trained):
        other, model = with_stepper(trained, HeldModel)
        models.append(model)
        if len(models) == 2:
            # its warm-up waits until the test has seen that the run is not ready
            model.hold()
        return ThreadWorker(other)

    with serving(registry, ServiceSettings(step_seconds=1.0), launch) as served:
        models[0].hold()
        answer = served.predict("a b c")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "worker_lost")
        assert "a step took longer than 1 s" in answer.json()["error"]["message"]
        assert clients.came(lambda: len(models) == 2)
        ready = served.client.get("/health/ready")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == ["run: a step took longer than 1 s"]
        refused = served.predict("a b c")
        assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "not_ready")
        assert served.client.get("/health/live").status_code == 200
        models[1].goes_on.set()
        assert clients.came(lambda: served.client.get("/health/ready").status_code == 200)
        assert served.predict("a b c").status_code == 200
        assert served.metric("regard_lost_workers_total") == 1
        models[0].goes_on.set()


def test_the_tokens_of_a_batch_are_halved_until_the_largest_fits(trained, monkeypatch):
    monkeypatch.setattr("regard.serving.worker.BATCH_TOKENS", 400)
    other, model = with_stepper(trained, Failing)
    assert measured_batch(other) == 400
    most = max(model.starts)
    model.most_rows, model.starts = most // 2, []
    assert measured_batch(other) == 200
    assert model.starts[0] > model.most_rows >= model.starts[-1]


@pytest.mark.parametrize("task", ["words", "tags", "label"])
def test_runs_that_only_read_are_served_as_predict_answers_them(readers, task):
    with serving(Registry({task: readers.run(task)})) as served:
        said = served.predict("a dog ate").json()["answers"][0]
    assert said["text"] == readers.run(task).trained.predict(["a dog ate"])[0].text


def test_a_run_that_gives_vectors_is_ready_and_tells_that_it_has_no_answers(readers):
    with serving(Registry({"vectors": readers.run("vectors")})) as served:
        said = served.predict("a dog ate")
        assert said.status_code == 422
    with pytest.raises(SettingError) as error:
        readers.run("vectors").trained.predict(["a dog ate"])
    assert said.json()["error"]["message"] == str(error.value)
