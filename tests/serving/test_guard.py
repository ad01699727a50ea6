"""Who may ask, how much may be sent, and what every answer says to a browser."""

import pytest

from regard.serving.guard import MAX_BYTES, AllowedHosts, Guard


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"])
def test_this_machine_is_let_in_by_its_own_names(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_host_is_refused(client, host):
    answer = client.get("/api/runs", headers={"host": host})
    assert answer.status_code == 403
    assert answer.json()["error"]["kind"] == "foreign_host"
    assert "--host" in answer.json()["error"]["message"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_a_page_of_a_foreign_origin_is_refused(client, origin):
    answer = client.get("/api/runs", headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["kind"] == "foreign_origin"


def test_the_server_s_own_page_is_let_in(client):
    assert client.get("/health", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200


def test_a_server_of_everybody_takes_addresses_but_no_names():
    names = AllowedHosts.of("0.0.0.0")
    assert names.holds("192.168.1.7:8000")
    assert names.holds("localhost:8000")
    assert not names.holds("evil.example:8000")
    assert AllowedHosts.of("studio.lan").holds("studio.lan:80")


def test_too_much_is_refused_whether_announced_or_not(client):
    path, headers = "/api/runs/first/predict", {"content-type": "application/json"}
    body = b"x" * (MAX_BYTES + 1)
    announced = client.post(path, content=body, headers=headers)
    silent = client.post(path, content=iter([body[: MAX_BYTES // 2]] * 3), headers=headers)
    for answer in (announced, silent):
        assert answer.status_code == 413
        assert answer.json()["error"]["kind"] == "too_large"


def test_every_answer_has_a_policy_that_allows_this_server_alone(client):
    for path in ("/", "/api/runs", "/nowhere", "/api/runs/nobody/info"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/..%2f..%2fapp.py", "/vendor/../../app.py", "/%2e%2e/app.py", "/style.css/", "/parts"]
)
def test_nothing_outside_the_page_s_folder_is_served(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_foreign_page_may_lead_here_but_not_ask(client, site):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    answer = client.get("/api/runs", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["kind"] == "foreign_origin"
    assert client.get("/", headers={**headers, "sec-fetch-mode": "navigate"}).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_own_page_and_an_address_that_is_typed_are_let_in(client, site):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "cors"}
    assert client.get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize(("length", "status"), [("²", 400), ("-1", 400), ("9" * 5000, 413)])
def test_a_length_that_cannot_be_read_is_refused(length, status):
    async def never(scope, receive, send):
        raise AssertionError

    guard = Guard(never, AllowedHosts())
    refusal = guard._too_much({"content-length": length}, 10)
    assert refusal is not None
    assert refusal[0] == status


def test_a_head_that_is_written_in_other_digits_is_no_head(client):
    answers = client.post("/api/runs/first/predict", json={"text": "a dog"}).json()["answers"]
    answer = client.get(f"/api/records/{answers[0]['record']}/tiles/cross/0/²/0/0/0")
    assert answer.status_code == 404
    assert answer.json()["error"]["kind"] == "UnknownChoice"
