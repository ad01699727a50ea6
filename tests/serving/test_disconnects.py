"""Disconnects: what a client that has gone asked for is not computed any more."""

import asyncio

import pytest

from regard.runs.trained import load
from regard.serving import build_app
from regard.serving.registry import Registry, Served
from regard.serving.request_limits import ConnectedClient, answer_while_there
from regard.serving.server import running
from tests.captioning import draw, trained_captioner
from tests.factories import make_run
from tests.serving import clients
from tests.serving.clients import SeenLock, SeenModel

GONE = 'regard_requests_total{{route="/api/runs/{{run}}/{verb}",status="499"}}'


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    """By the last word of its address: a run, and what it is asked."""
    folder = tmp_path_factory.mktemp("leaving")
    draw(folder / "scene.png", 1)
    return {
        "predict": (make_run(folder / "texts", max_len=48), {"text": "a b c"}),
        "caption": (trained_captioner(folder / "pictures"), (folder / "scene.png").read_bytes()),
    }


@pytest.mark.parametrize("verb", ["predict", "caption"])
def test_a_request_that_waits_for_the_model_is_dropped_when_its_client_leaves(requests, verb):
    run, asked = requests[verb]
    lock, served = SeenLock(), Served("run", load(run, device="cpu"))
    object.__setattr__(served, "busy", lock)
    with running(build_app(Registry({"run": served}))) as address, lock.taken():
        with clients.connected(address) as connection:
            clients.post(connection, f"api/runs/run/{verb}", asked)
            assert lock.wanted.wait(clients.PATIENCE)
        # the model is still held: what waits for it ends by itself
        assert clients.came(lambda: GONE.format(verb=verb) in clients.get(address, "metrics"))


@pytest.mark.parametrize("verb", ["predict", "caption"])
def test_a_search_ends_at_its_next_step_when_its_client_leaves(requests, verb, monkeypatch):
    run, asked = requests[verb]
    trained = load(run, device="cpu")
    model, leave = SeenModel(trained.stepper), ConnectedClient.set
    object.__setattr__(trained, "stepper", model)

    def noticed(client):
        leave(client)
        if model.is_writing.is_set():
            model.goes_on.set()

    monkeypatch.setattr(ConnectedClient, "set", noticed)
    with running(build_app(Registry({"run": Served("run", trained)}))) as address:
        with clients.connected(address) as connection:
            clients.post(connection, f"api/runs/run/{verb}", asked)
            assert model.is_writing.wait(clients.PATIENCE)
        assert clients.came(lambda: GONE.format(verb=verb) in clients.get(address, "metrics"))
    assert model.steps == 2


def test_an_answer_that_is_waited_for_is_the_same_as_without_a_server(requests):
    run, asked = requests["predict"]
    trained = load(run, device="cpu")
    registry = Registry({"run": Served("run", trained)})
    with running(build_app(registry)) as address, clients.connected(address) as connection:
        clients.post(connection, "api/runs/run/predict", asked)
        status, said = clients.answer_to(connection)
    assert status == 200
    assert said["answers"][0]["text"] == trained.predict([asked["text"]])[0].text


def test_a_body_is_taken_part_by_part_and_then_the_end_is_listened_for():
    parts = [{"type": "http.request", "body": bytes([n]), "more_body": n < 2} for n in range(3)]
    coming = [*parts, {"type": "http.disconnect"}]
    seen = []

    async def receive():
        return coming.pop(0)

    async def app(scope, receive, send):
        for n in range(3):
            # nothing is read ahead of the application
            assert len(coming) == 4 - n
            seen.append(await receive())
        assert (await receive())["type"] == "http.disconnect"

    asyncio.run(answer_while_there(app, {}, receive, None, has_body=True))
    assert seen == parts
