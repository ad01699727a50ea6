"""The client: answers, events, and requests that are sent again where the server is full."""

import asyncio
import json

import httpx
import pytest

import regard
from regard.client import ServerError
from regard.serving.registry import open_runs
from tests.factories import make_run
from tests.serving.services import serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("client") / "run", "a b c", "the dog", max_len=48)
    with serving(open_runs([run], device="cpu")) as served:
        yield served


@pytest.fixture
def want(served):
    return [one.text for one in served.services.registry.run("run").trained.predict(["a", "b c"])]


def test_both_clients_give_the_answers_of_predict(served, want):
    with regard.Client(served.address) as client:
        assert client.is_ready()
        assert [one["text"] for one in client.predict(["a", "b c"])["answers"]] == want
        assert (
            client.predict("a", options={"n_best": 2})["answers"][0]["n_best"][0]["text"] == want[0]
        )
        assert client.info()["runs"][0]["name"] == "run"

    async def ask():
        async with regard.AsyncClient(served.address) as client:
            assert await client.is_ready()
            found = await asyncio.gather(client.predict("a"), client.predict("b c"), client.info())
            events = [event async for event in client.stream("a", options={"beam": 1})]
        return found, events

    (one, two, _), events = asyncio.run(ask())
    assert [one["answers"][0]["text"], two["answers"][0]["text"]] == want
    assert events[-1][0] == "done"


def test_a_stream_gives_the_text_token_by_token(served):
    with regard.Client(served.address) as client:
        events = list(client.stream("b c", options={"beam": 1}))
    deltas = "".join(data["delta"] for name, data in events if name == "token")
    assert deltas == events[-1][1]["answers"][0]["text"]


def test_a_mistake_is_an_error_with_its_status_and_kind(served):
    with regard.Client(served.address) as client:
        with pytest.raises(ServerError, match="Did you mean 'beam'") as error:
            client.predict("a", options={"beem": 2})
        assert (error.value.status, error.value.kind) == (422, "bad_request")
        with pytest.raises(ServerError, match="no request with the id 'x' is under way"):
            client.cancel("x")
        with pytest.raises(ServerError, match="beem"):
            list(client.stream("a", options={"beem": 2}))


def _full(times, retry_after="7"):
    """A server that is full so many times, and the requests that it got."""
    got = []

    def answer(request):
        got.append(json.loads(request.content or b"null"))
        if len(got) <= times:
            told = {"error": {"kind": "queue_full", "message": "serve: full."}}
            return httpx.Response(429, json=told, headers={"Retry-After": retry_after})
        return httpx.Response(200, json={"answers": []})

    return got, httpx.MockTransport(answer)


def test_a_full_server_is_asked_again_after_the_time_that_it_says(monkeypatch):
    waits = []
    monkeypatch.setattr("regard.client.time.sleep", waits.append)
    got, transport = _full(times=2)
    with regard.Client(transport=transport) as client:
        assert client.predict("a") == {"answers": []}
    assert len(got) == 3
    assert all(7 <= wait <= 7 * 1.25 for wait in waits)
    got, transport = _full(times=9, retry_after="soon")
    with (
        regard.Client(transport=transport, retries=3) as client,
        pytest.raises(ServerError, match="serve: full") as error,
    ):
        client.predict("a")
    assert (len(got), error.value.status) == (4, 429)


def test_the_client_that_awaits_asks_again_too(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr("regard.client.asyncio.sleep", sleep)
    got, transport = _full(times=1)

    async def ask():
        async with regard.AsyncClient(transport=transport) as client:
            return await client.predict("a")

    assert asyncio.run(ask()) == {"answers": []}
    assert (len(got), len(waits)) == (2, 1)


def test_the_token_is_sent_with_every_request():
    seen = []

    def answer(request):
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, json={})

    with regard.Client(token="secret", transport=httpx.MockTransport(answer)) as client:
        client.info()
        client.predict("a")
    assert seen == ["Bearer secret"] * 2


def test_a_server_that_is_not_there_is_not_ready():
    with regard.Client("http://127.0.0.1:9") as client:
        assert not client.is_ready()
