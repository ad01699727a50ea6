"""Bodies: read when the run can use them, and never kept in memory for a client that left."""

import asyncio
import tempfile
import tracemalloc
from itertools import chain

import pytest
from starlette.testclient import TestClient

from regard.serving import build_app
from regard.serving.guard import MAX_PICTURE_BYTES
from regard.serving.registry import open_runs
from regard.serving.server import running
from tests.captioning import draw, trained_captioner
from tests.factories import make_run
from tests.serving import clients

MEGABYTE = 1 << 20
PART = bytes(64 << 10)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uploads")
    captioner = trained_captioner(folder / "made").rename(folder / "pictures")
    return open_runs([make_run(folder / "texts"), captioner], device="cpu")


@pytest.fixture
def client(registry):
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    ("path", "kind", "status", "message"),
    [
        ("unknown/caption", "image/png", 404, "There is no 'unknown' here"),
        ("texts/caption", "image/png", 400, "'texts' reads texts, not pictures"),
        ("unknown/predict", "application/json", 404, "There is no 'unknown' here"),
        ("pictures/predict", "application/json", 400, "'pictures' captions pictures"),
        ("texts/predict", "text/plain", 415, "expected a body of Content-Type application/json"),
    ],
)
def test_what_cannot_be_used_is_refused_before_it_is_sent(registry, path, kind, status, message):
    with running(build_app(registry)) as address, clients.connected(address) as connection:
        # the head alone: the client waits with the rest
        connection.sendall(clients.head_of(f"api/runs/{path}", MEGABYTE, kind))
        got, said = clients.answer_to(connection)
        assert (got, message in said["error"]["message"]) == (status, True)
        # what was announced may still come, and the connection is good for more
        connection.sendall(bytes(MEGABYTE))
        clients.post(connection, "api/runs/texts/predict", {"text": "a b"})
        assert clients.answer_to(connection)[0] == 200


def _upload(app, parts):
    """Send parts to a run that captions, and then leave; the statuses that were answered."""
    coming = chain(parts, [{"type": "http.disconnect"}])
    statuses = []

    async def receive():
        return next(coming)

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http", "method": "POST", "path": "/api/runs/pictures/caption", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-length", str(30 * MEGABYTE).encode())],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return statuses


def _parts(n_bytes):
    # made one by one, so that only a server that keeps them has them all
    for _ in range(n_bytes // len(PART)):
        yield {"type": "http.request", "body": bytes(len(PART)), "more_body": True}


def test_an_upload_that_is_aborted_takes_no_memory_and_leaves_no_file(registry, temporary):
    app = build_app(registry)
    # what is loaded for the first request stays
    assert _upload(app, _parts(MEGABYTE)) == [499]
    tracemalloc.start()
    try:
        assert _upload(app, _parts(30 * MEGABYTE)) == [499]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEGABYTE
    assert list(temporary.iterdir()) == []


def test_a_picture_that_is_sent_is_captioned_as_the_file_is(registry, client, tmp_path, temporary):
    said = []
    for number in (1, 2, 1):
        draw(tmp_path / "scene.png", number)
        content = (tmp_path / "scene.png").read_bytes()
        said.append(client.post("/api/runs/pictures/caption", content=content).json())
        want = (
            registry.run("pictures").trained.look_at_picture(str(tmp_path / "scene.png")).as_json()
        )
        assert said[-1]["words"] == want["words"]
        assert said[-1]["record"] in client.get(f"/api/captions/{said[-1]['record']}").text
    # the same picture is the same record
    assert said[0] == said[2]
    assert said[0]["record"] != said[1]["record"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no picture was sent"), (b"no picture", "the picture that was sent")],
)
def test_what_is_no_picture_is_told(client, content, message, temporary):
    said = client.post("/api/runs/pictures/caption", content=content)
    assert said.status_code == 400
    assert message in said.json()["error"]["message"]
    assert str(temporary) not in said.text
    assert list(temporary.iterdir()) == []


def test_a_picture_that_grows_past_the_limit_is_refused(client, temporary):
    parts = (PART for _ in range(MAX_PICTURE_BYTES // len(PART) + 1))
    said = client.post("/api/runs/pictures/caption", content=parts)
    assert said.status_code == 413
    assert said.json()["error"]["kind"] == "too_large"
    assert list(temporary.iterdir()) == []


def test_a_body_that_is_no_json_is_told(client):
    headers = {"content-type": "application/json; charset=utf-8"}
    said = client.post("/api/runs/texts/predict", content=b"{", headers=headers)
    assert said.status_code == 422
    assert said.json()["error"]["message"].startswith("serve: body: Invalid JSON")


def test_the_form_of_a_request_is_described(client):
    said = client.get("/openapi.json").json()["paths"]["/api/runs/{run}/predict"]["post"]
    form = said["requestBody"]["content"]["application/json"]["schema"]
    assert form["required"] == ["text"]
    assert set(form["properties"]) == {"text", "target", "n_best", "max_tokens", "sampling"}
    drawn = next(one for one in form["properties"]["sampling"]["anyOf"] if "properties" in one)
    assert set(drawn["properties"]) == {"temperature", "top_k", "top_p", "seed"}
