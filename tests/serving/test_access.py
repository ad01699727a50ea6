"""Access: who may ask a server that strangers can reach, how often, and what its log keeps."""

import io
import json

import httpx
import pytest
from starlette.testclient import TestClient

from regard.cli import main
from regard.errors import SettingError
from regard.serving import access, build_app
from regard.serving.access import Access, RateLimit
from regard.serving.registry import open_runs
from regard.serving.server import running
from regard.serving.telemetry import RequestLog
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import serving

TOKEN, OTHER = "0123456789abcdef-one", "0123456789abcdef-two"
OPEN = {"/health", "/health/live", "/health/ready"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_runs([make_run(tmp_path_factory.mktemp("v1") / "run", max_len=48)])


@pytest.fixture(scope="module")
def guarded(registry):
    with serving(registry, access=Access([TOKEN, OTHER])) as served:
        yield served


def test_another_machine_may_ask_only_with_a_token_or_if_the_user_says_so(tmp_path, capsys):
    run = str(make_run(tmp_path / "run"))
    assert main(["serve", run, "--host", "0.0.0.0", "--port", "0"]) == 2
    assert capsys.readouterr().err == (
        "regard: serve: --host 0.0.0.0 lets other machines ask, and nothing keeps strangers out. "
        "Give --token (or the variable REGARD_TOKEN), say --insecure, or leave --host out for this "
        "machine alone.\n"
    )
    assert main(["serve", run, "--token", "short", "--port", "0"]) == 2
    assert "a token must have at least 16 ASCII characters; this one has 5" in (
        capsys.readouterr().err
    )


def test_every_path_but_health_asks_for_the_token(guarded):
    asking = {"Authorization": f"Bearer {TOKEN}"}
    paths = guarded.client.get("/openapi.json", headers=asking).json()["paths"]
    found = {}
    for path, methods in paths.items():
        for method in methods:
            found[path] = guarded.client.request(method, path).status_code
    for path in ("/", "/openapi.json", "/docs", "/app.js", "/nothing"):
        found[path] = guarded.client.get(path).status_code
    assert {path for path, status in found.items() if status != 401} == OPEN


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {OTHER}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer \xff", 401),
    ],
)
def test_only_a_token_that_is_known_opens(guarded, header, status):
    said = guarded.client.get("/v1/runs", headers={"Authorization": header.encode("latin-1")})
    assert said.status_code == status
    if status == 401:
        assert said.headers["WWW-Authenticate"] == "Bearer"
        assert "Send Authorization: Bearer TOKEN" in said.json()["error"]["message"]


def test_every_known_token_is_compared_whole(monkeypatch):
    compared = []
    same = access.hmac.compare_digest
    monkeypatch.setattr(
        access.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or same(a, b)
    )
    scope = {"path": "/v1/runs", "client": ("1.2.3.4", 5)}
    asked = Access([TOKEN, OTHER]).refusal(scope, {"authorization": f"Bearer {TOKEN}"})
    assert asked is None
    assert compared == [(TOKEN.encode(), TOKEN.encode()), (OTHER.encode(), TOKEN.encode())]


def test_a_browser_has_a_cookie_once_it_opened_the_address_with_the_token(guarded):
    with httpx.Client(base_url=guarded.address) as browser:
        led = browser.get(f"/?token={TOKEN}")
        assert (led.status_code, led.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in led.headers["set-cookie"]
        assert b"regard studio" in browser.get("/").content
        assert browser.get("/api/runs").status_code == 200
        assert httpx.get(f"{guarded.address}?token=wrong").status_code == 401


def test_a_client_that_asks_too_often_is_told_when_to_come_again(registry):
    app = build_app(registry, access=Access([TOKEN, OTHER], rate=2.0))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        one, two = ({"Authorization": f"Bearer {token}"} for token in (TOKEN, OTHER))
        statuses = [client.get("/api/runs", headers=one).status_code for _ in range(50)]
        assert statuses[:2] == [200, 200]
        refused = statuses.index(429)
        assert refused < 50
        said = client.get("/metrics", headers=two)
        assert said.status_code == 200
        assert client.get("/health").status_code == 200


def test_a_rate_is_a_second_s_worth_at_once_and_then_its_share():
    now = [0.0]
    rate = RateLimit(2.0, clock=lambda: now[0])
    assert [rate.wait_seconds("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    assert rate.wait_seconds("b") == 0.0
    now[0] = 0.5
    assert [rate.wait_seconds("a"), rate.wait_seconds("a")] == [0.0, 0.5]


def test_a_name_of_a_proxy_is_known_where_it_is_allowed(registry):
    app = build_app(registry, allowed_hosts=["models.example"])
    with TestClient(app, base_url="http://models.example") as client:
        assert client.get("/health").status_code == 200
    with TestClient(app, base_url="http://other.example") as client:
        said = client.get("/health")
        assert said.status_code == 403
        assert "start it with --host or --allow-host" in said.json()["error"]["message"]


def test_a_body_that_comes_too_slowly_is_given_up(registry, monkeypatch):
    monkeypatch.setattr("regard.serving.guard.BODY_SECONDS", 0.2)
    with running(build_app(registry)) as address, clients.connected(address) as connection:
        connection.sendall(clients.head_of("api/runs/run/predict", 100) + b"{")
        status, said = clients.answer_to(connection)
    assert (status, said["error"]["kind"]) == (408, "too_slow")
    assert "the body took longer than 0.2 s" in said["error"]["message"]


def test_a_head_that_comes_too_slowly_ends_its_connection(registry, monkeypatch):
    monkeypatch.setattr("regard.serving.connections.HEAD_SECONDS", 0.2)
    with running(build_app(registry)) as address:
        for sent in (b"", b"GET /health HTTP/1.1\r\nHost: 127"):
            with clients.connected(address) as connection:
                connection.sendall(sent)
                assert connection.recv(1000) == b""
        # one that asked in time may ask again
        assert json.loads(clients.get(address, "health"))["status"] == "good"


def test_bodies_under_way_are_bounded_together(registry, monkeypatch):
    monkeypatch.setattr("regard.serving.guard.MAX_BYTES_COMING", 1000)
    with running(build_app(registry)) as address, clients.connected(address) as slow:
        slow.sendall(clients.head_of("api/runs/run/predict", 900) + b"{")

        def is_refused():
            with clients.connected(address) as connection:
                clients.post(connection, "api/runs/run/predict", b" " * 200)
                status, said = clients.answer_to(connection)
            return (status, said["error"]["kind"]) == (503, "busy")

        assert clients.came(is_refused)


@pytest.mark.parametrize("has_texts", [False, True])
def test_a_log_line_has_ids_sizes_and_times_and_texts_only_if_told(registry, has_texts):
    lines = io.StringIO()
    with serving(registry, log=RequestLog(lines.write, has_texts=has_texts)) as served:
        headers = {"X-Request-Id": "my-id.1"}
        asked = {"texts": "a secret", "beam": 1}
        said = served.client.post("/v1/predict", json=asked, headers=headers)
        assert said.headers["X-Request-Id"] == said.json()["id"] == "my-id.1"
        strange = {"X-Request-Id": "no id\t{}"}
        given = served.client.get("/health", headers=strange).headers["X-Request-Id"]
        assert len(given) == 32
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    (line,) = [one for one in written if one["route"] == "/v1/predict"]
    facts = {key: line[key] for key in ("id", "method", "status", "run", "texts", "characters")}
    assert facts == {
        "id": "my-id.1", "method": "POST", "status": 200, "run": "run", "texts": 1,
        "characters": 8,
    }  # fmt: skip
    assert line["ms"] > 0
    assert ("a secret" in lines.getvalue()) == has_texts


def test_a_certificate_that_cannot_be_used_is_told(tmp_path, capsys):
    run = str(make_run(tmp_path / "run"))
    (tmp_path / "cert.pem").write_text("nothing")
    assert main(["serve", run, "--certificate", str(tmp_path / "cert.pem"), "--port", "0"]) == 2
    assert "and its key cannot be used" in capsys.readouterr().err
    assert main(["serve", run, "--key", str(tmp_path / "cert.pem"), "--port", "0"]) == 2
    assert "--key is the key of a certificate. Add --certificate." in capsys.readouterr().err
    with pytest.raises(SettingError, match="ASCII"):
        Access(["ü" * 20])
