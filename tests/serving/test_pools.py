"""What is cheap to answer is answered, however many predictions wait for a model."""

from contextlib import ExitStack

import pytest

from regard.serving import build_app
from regard.serving.registry import Registry, Served
from regard.serving.server import running
from tests.serving import clients
from tests.serving.clients import SeenLock

MANY = 60
"""Predictions at a time; Starlette has 40 threads for all routes that do not say otherwise."""
CHEAP = (
    "health",
    "metrics",
    "",
    "style.css",
    "openapi.json",
    "api/runs",
    "api/colours",
    "api/runs/first/info",
    "api/runs/second/info",
    "api/runs/first/curves",
    "api/worked",
    "api/gold",
    "api/course",
    "api/course/1",
)
LONG = {"text": "a dog ate " * 1000}


@pytest.fixture
def waiting(registry):
    """A server whose first run has many predictions to make, and no model to make them with."""
    lock, arrived = SeenLock(), []
    first = Served("first", registry.run("first").trained)
    object.__setattr__(first, "busy", lock)
    app = build_app(Registry({**registry.runs, "first": first}, registry.gold))

    async def counted(scope, receive, send):
        if scope["type"] == "http":
            arrived.append(scope["path"])
        await app(scope, receive, send)

    with running(counted) as address, lock.taken(), ExitStack() as stack:
        for number in range(MANY):
            connection = stack.enter_context(clients.connected(address))
            clients.post(connection, "api/runs/first/predict", {"text": f"a dog ate {number}"})
        assert clients.came(lambda: len(arrived) == MANY)
        assert lock.wanted.wait(clients.PATIENCE)
        yield address


def test_no_cheap_route_waits_behind_predictions(waiting):
    # twice, since the first may come before all predictions have taken what they wait with
    for path in (*CHEAP, *CHEAP):
        assert clients.get(waiting, path)


def test_a_run_is_asked_while_predictions_of_another_wait(waiting):
    with clients.connected(waiting) as connection:
        clients.post(connection, "api/runs/second/predict", {"text": "a dog"})
        status, said = clients.answer_to(connection)
        assert status == 200
    # records of an answer need no thread that a waiting prediction has
    assert clients.get(waiting, f"api/records/{said['answers'][0]['record']}/statistics/cross")


@pytest.mark.parametrize(
    ("asked", "status"), [(LONG, 413), ({"text": "a", "max_tokens": 0}, 400), ({}, 422)]
)
def test_what_is_refused_waits_for_nothing(waiting, asked, status):
    with clients.connected(waiting) as connection:
        clients.post(connection, "api/runs/first/predict", asked)
        assert clients.answer_to(connection)[0] == status
