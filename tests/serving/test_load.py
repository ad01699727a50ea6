"""Load: many clients at once, some of which leave or send nonsense; and requests made at random."""

import json
import random
import threading
import time
from collections import Counter

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.serving.registry import open_runs
from regard.serving.run_service import ServiceSettings
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import serving

TEXTS = ("a", "a b c", "the dog", "a dog ate the food", "because it was hungry", "food")
N_CLIENTS, N_EACH = 8, 20


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_runs([make_run(tmp_path_factory.mktemp("v1") / "run", *TEXTS, max_len=48)])


@pytest.fixture(scope="module")
def served(registry):
    with serving(registry, ServiceSettings(max_waiting=6)) as served:
        yield served


def test_every_request_that_is_taken_is_answered_once_and_right_whatever_others_do(
    served, registry
):
    trained = registry.run("run").trained
    want = {text: trained.predict([text])[0].text for text in TEXTS}
    statuses, wrong, seconds = Counter(), [], []

    def ask(number):
        dice = random.Random(number)
        with httpx.Client(base_url=served.address, timeout=clients.PATIENCE) as client:
            for count in range(N_EACH):
                text, chance = dice.choice(TEXTS), dice.random()
                if chance < 0.10:
                    with clients.connected(served.address) as connection:
                        clients.post(connection, "v1/predict", {"texts": text})
                    continue
                name = f"{number}-{count}"
                body = {"texts": text} if chance < 0.95 else {"texts": text, "beem": 1}
                began = time.monotonic()
                headers = {"X-Request-Id": name}
                said = client.post("/v1/predict", json=body, headers=headers)
                seconds.append(time.monotonic() - began)
                statuses[said.status_code] += 1
                if said.status_code == 200:
                    found = said.json()
                    (answer,) = found["answers"]
                    if (found["id"], answer["text"]) != (name, want[text]):
                        wrong.append((name, text, answer))

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(N_CLIENTS)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert wrong == []
    assert set(statuses) <= {200, 422, 429}
    assert statuses[200] > N_CLIENTS
    seconds.sort()
    p50, p95, p99 = (1000 * seconds[int(share * len(seconds))] for share in (0.5, 0.95, 0.99))
    print(f"{dict(statuses)}; p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms")
    # nothing is kept of what has ended
    assert clients.came(lambda: not served.services.under_way)
    assert clients.came(lambda: not served.services.runs["run"].is_busy)
    assert len(served.services.runs["run"].queue) == 0


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.lists(st.one_of(st.text(max_size=9), st.integers()), max_size=3),
)  # fmt: skip
NAMES = st.sampled_from(
    ["texts", "pictures", "run", "beam", "n_best", "length_penalty", "max_tokens", "sample",
     "top_k", "temperature", "top_p", "seed", "alignments", "on_long", "truncate", "stream",
     "timeout_ms", "prefix", "must_contain", "", "other"]
)  # fmt: skip
PATHS = st.sampled_from(
    ["/v1/predict", "/v1/runs", "/v1/info", "/v1/requests/x", "/health/ready", "/metrics", "/docs",
     "/v1/predict/", "/v1//predict", "/v1/../v1/predict", "/%00", "/api/runs/run/predict", "/v1"]
)  # fmt: skip
ANY_TIME = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@ANY_TIME
@given(body=st.dictionaries(NAMES, VALUES, max_size=5), has_texts=st.booleans())
def test_no_request_to_predict_breaks_the_server(served, body, has_texts):
    if has_texts:
        body["texts"] = "a b"
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    said = served.client.post("/v1/predict", content=content, headers=headers)
    assert said.status_code in (200, 404, 413, 422, 504)
    if said.status_code not in (200, 504):
        assert said.json()["error"]["message"]


@ANY_TIME
@given(
    path=PATHS,
    verb=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
    content=st.binary(max_size=200),
    kind=st.sampled_from(["application/json", "image/png", "text/plain", "", "image/"]),
)
def test_no_request_to_any_address_breaks_the_server(served, path, verb, content, kind):
    said = served.client.request(verb, path, content=content, headers={"Content-Type": kind})
    assert said.status_code < 500
    assert served.client.get("/health/live").status_code == 200


@ANY_TIME
@given(content=st.binary(min_size=1, max_size=200))
def test_what_is_no_http_ends_its_connection_alone(served, content):
    with clients.connected(served.address) as connection:
        connection.sendall(content + b"\r\n\r\n")
        connection.settimeout(clients.PATIENCE)
        said = connection.recv(10_000)
    assert b" 500 " not in said.split(b"\r\n")[0]
    assert served.client.get("/health/live").status_code == 200
