"""Lifecycle: ready after the warm-up, unready from the first signal on, reloaded atomically."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import torch
import uvicorn

from regard.runs.trained import load
from regard.serving import build_app
from regard.serving.prediction_schemas import SearchOptions
from regard.serving.registry import open_runs
from regard.serving.run_service import ServiceSettings
from regard.serving.server import Lifecycle, StoppableServer, bind, run_server, running
from regard.serving.services import open_services
from regard.serving.worker import search_of
from regard.training.checkpoints import distinct_tensors, write_tensors
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import HeldModel, ThreadWorker, held, serving, with_stepper

TEXTS = ("a dog ate the food", "a b c", "the dog")


@pytest.fixture
def registry(tmp_path):
    return open_runs([make_run(tmp_path / "run", *TEXTS, max_len=48)], device="cpu")


def test_live_says_that_the_process_lives_and_ready_that_a_worker_answered_its_warm_up(registry):
    models = []

    def launch(trained):
        other, model = with_stepper(trained, HeldModel)
        model.hold()
        models.append(model)
        return ThreadWorker(other)

    with opened_while_starting(registry, launch) as client:
        assert client.get("/health/live").status_code == 200
        said = client.get("/health/ready")
        assert (said.status_code, said.json()["reasons"]) == (
            503, ["run: its workers are starting"],
        )  # fmt: skip
        refused = client.post("/v1/predict", json={"texts": "a"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        models[0].goes_on.set()
        assert clients.came(lambda: client.get("/health/ready").status_code == 200)
        assert client.post("/v1/predict", json={"texts": "a"}).status_code == 200


@contextmanager
def opened_while_starting(registry, launch):
    services = open_services(
        registry, lambda served: lambda number: launch(served.trained), ServiceSettings()
    )
    with (
        running(build_app(registry, services=services)) as address,
        httpx.Client(base_url=address, timeout=clients.PATIENCE) as client,
    ):
        yield client


class Wrong:
    """A stepper that prefers other tokens than the run."""

    def __init__(self, model):
        self.start, self.select, self.branch, self._step = (
            model.start, model.select, model.branch, model.step,
        )  # fmt: skip

    def step(self, state, tokens):
        logits, state = self._step(state, tokens)
        return -logits, state


def test_a_worker_whose_warm_up_is_wrong_is_never_used(registry):
    launched = []

    def launch(trained):
        launched.append(1)
        return ThreadWorker(with_stepper(trained, Wrong)[0] if len(launched) == 1 else trained)

    with serving(registry, launch=launch) as served:
        assert len(launched) == 2
        assert served.metric("regard_lost_workers_total") == 1
        assert served.predict("a b c").status_code == 200


def test_a_run_above_high_water_is_not_ready_for_more(registry):
    with held(registry, ServiceSettings(max_waiting=5)) as (served, model):
        model.hold()
        first = served.predict_in_thread("a")
        assert model.is_stepping.wait(clients.PATIENCE)
        others = served.predict_in_thread(["a"] * 5)
        assert clients.came(lambda: len(served.services.runs["run"].queue) == 5)
        said = served.client.get("/health/ready")
        assert (said.status_code, said.json()["reasons"]) == (
            503, ["run: the queue is at 100% of its bound"],
        )  # fmt: skip
        model.goes_on.set()
        assert (first().status_code, others().status_code) == (200, 200)
        assert served.client.get("/health/ready").status_code == 200


def _life(registry, launch=ThreadWorker, drain_seconds=30.0):
    services = open_services(
        registry, lambda served: lambda number: launch(served.trained), ServiceSettings()
    )
    return Lifecycle(
        services, drain_seconds, lambda served: load(served.trained.path, device="cpu")
    )


def _serve(registry, life, use):
    """Serve in this thread while a function of the address runs in another; what that gives."""
    listening, found = bind("127.0.0.1", 0), []
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def work():
        try:
            with httpx.Client(base_url=address, timeout=clients.PATIENCE) as client:
                assert clients.came(lambda: client.get("/health/ready").status_code == 200)
                found.append(use(client))
        finally:
            # a server that has ended leaves the signal to the tests' own process
            if not life.services.is_draining:
                signal.raise_signal(signal.SIGTERM)

    thread = threading.Thread(target=work)

    def begin(_):
        thread.start()

    try:
        run_server(
            build_app(registry, services=life.services), listening, opens=True, open_page=begin,
            life=life,
        )  # fmt: skip
        thread.join(clients.PATIENCE)
    finally:
        listening.close()
    return found[0]


@pytest.mark.parametrize(
    ("drain_seconds", "statuses"), [(30.0, [200, 200]), (0.0, [503, 503])], ids=["whole", "cut"]
)
def test_a_server_that_is_told_to_stop_answers_what_it_took_as_long_as_it_may(
    registry, drain_seconds, statuses
):
    models = []

    def launch(trained):
        other, model = with_stepper(trained, HeldModel)
        models.append(model)
        return ThreadWorker(other)

    life = _life(registry, launch, drain_seconds)

    def use(client):
        models[0].hold()
        found = []

        def ask(text):
            with httpx.Client(base_url=client.base_url, timeout=clients.PATIENCE) as own:
                found.append(own.post("/v1/predict", json={"texts": text}))

        asking = [threading.Thread(target=ask, args=(text,)) for text in TEXTS[:2]]
        asking[0].start()
        assert models[0].is_stepping.wait(clients.PATIENCE)
        asking[1].start()
        assert clients.came(lambda: len(life.services.runs["run"].queue) == 1)
        signal.raise_signal(signal.SIGTERM)
        assert clients.came(lambda: life.services.why_not_ready()[:1] == ["the server stops"])

        def is_closed():
            try:
                return httpx.get(f"{client.base_url}/health/live").status_code != 200
            except httpx.TransportError:
                return True

        assert clients.came(is_closed)
        if drain_seconds:
            models[0].goes_on.set()
        for thread in asking:
            thread.join(clients.PATIENCE)
        models[0].goes_on.set()
        return found

    found = _serve(registry, life, use)
    assert [one.status_code for one in found] == statuses
    if not drain_seconds:
        assert {one.json()["error"]["kind"] for one in found} == {"stopping"}


def test_a_second_signal_ends_it_now():
    server = StoppableServer(uvicorn.Config(lambda: None), None)
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(signal.SIGTERM, None)
    assert server.force_exit


def _retrain(run, folder):
    """Other weights in the place of a run's, as a new training would leave them."""
    other = make_run(folder, *TEXTS, max_len=48)
    weights = load(other, device="cpu")
    with torch.no_grad():
        for one in weights.model.parameters():
            one.mul_(-1.5)
    write_tensors(run / "model.safetensors", distinct_tensors(weights.model))


def test_sighup_takes_new_weights_once_they_answer_and_the_old_ones_until_then(
    registry, tmp_path, capfd
):
    run = registry.run("run").trained.path
    life = _life(registry, lambda trained: ThreadWorker(load(run, device="cpu")))

    def use(client):
        before = client.post("/v1/predict", json={"texts": "a b c", "beam": 1}).json()
        _retrain(run, tmp_path / "other")
        os.kill(os.getpid(), signal.SIGHUP)
        asked = {"texts": "a b c", "beam": 1}
        said = []

        def is_new():
            answer = client.post("/v1/predict", json=asked)
            assert answer.status_code == 200
            said.append((answer.json()["model"], answer.json()["answers"][0]["text"]))
            return answer.json()["model"] != before["model"]

        assert clients.came(is_new)
        return before, said, client.get("/v1/runs").json()["runs"][0]["model"]

    before, said, model = _serve(registry, life, use)
    assert model == said[-1][0] != before["model"]
    want = {
        before["model"]: before["answers"][0]["text"],
        model: load(run, device="cpu").predict(["a b c"], search=_greedy(run))[0].text,
    }
    assert all(want[name] == text for name, text in said)
    assert f"serve: run is now {model}" in capfd.readouterr().err


def _greedy(run):
    return search_of(load(run, device="cpu"), SearchOptions(beam=1))


def test_a_run_that_cannot_be_loaded_again_stays_as_it_was(registry, tmp_path):
    run = registry.run("run").trained.path
    with serving(registry) as served:
        before = served.predict("a b c").json()
        shutil.move(run / "model.safetensors", tmp_path / "away")
        (said,) = asyncio.run(
            served.services.reload(lambda one: load(one.trained.path, device="cpu"))
        )
        assert said.startswith("run stays as it was: ")
        after = served.predict("a b c").json()
    assert (after["model"], after["answers"]) == (before["model"], before["answers"])


def test_no_address_loads_or_drops_a_run(registry):
    with serving(registry) as served:
        routes = served.client.get("/openapi.json").json()["paths"]
    changing = {(path, verb) for path, verbs in routes.items() for verb in verbs if verb != "get"}
    assert changing == {
        ("/v1/predict", "post"),
        ("/v1/requests/{name}", "delete"),
        ("/api/runs/{run}/predict", "post"),
        ("/api/runs/{run}/familiarity", "post"),
        ("/api/runs/{run}/caption", "post"),
        ("/api/worked", "post"),
    }


@pytest.mark.processes
def test_a_server_with_two_worker_processes_answers_survives_a_kill_and_drains(tmp_path):
    run = make_run(tmp_path / "run", *TEXTS, max_len=48)
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", "--workers", "2"]
    with subprocess.Popen(
        [*command, "--device", "cpu", "--log"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        try:
            said = process.stdout.readline()
            address = next(word for word in said.split() if word.startswith("http"))
            with httpx.Client(base_url=address, timeout=60) as client:
                end = time.monotonic() + 120
                runs = {}
                while runs.get("workers_ready") != 2 and time.monotonic() < end:
                    time.sleep(0.1)
                    runs = client.get("/v1/runs").json()["runs"][0]
                assert runs["workers_ready"] == 2
                found = client.post("/v1/predict", json={"texts": list(TEXTS)}).json()
                children = subprocess.run(
                    ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
                ).stdout.split()
                assert len(children) == 2
                os.kill(int(children[0]), signal.SIGKILL)
                again = client.post("/v1/predict", json={"texts": list(TEXTS)})
                if again.status_code == 503:
                    assert again.json()["error"]["kind"] == "worker_lost"
                    again = client.post("/v1/predict", json={"texts": list(TEXTS)})
                assert again.json()["answers"] == found["answers"]
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    want = load(run, device="cpu").predict(TEXTS)
    assert [one["text"] for one in found["answers"]] == [one.text for one in want]
    assert all(json.loads(line)["id"] for line in errors.splitlines())
