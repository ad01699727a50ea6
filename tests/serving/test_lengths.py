"""Texts that are too long: refused before the model is asked, and while others ask it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from regard.data.subwords import Subwords
from regard.serving import build_app
from regard.serving.registry import open_runs
from tests.factories import make_run


@pytest.fixture(params=["words", "characters"])
def client(request, tmp_path, monkeypatch):
    """Asks a run; `cuts` says of each time that a text was cut whether the model was free."""
    registry = open_runs([make_run(tmp_path / "run", kind=request.param, max_len=48)], device="cpu")
    lock, encode = registry.run("run").busy, Subwords.encode
    with (
        ThreadPoolExecutor(1) as other,
        TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client,
    ):

        def is_free():
            got = lock.acquire(blocking=False)
            if got:
                lock.release()
            return got

        def counted(self, text):
            client.cuts.append(other.submit(is_free).result())
            return encode(self, text)

        client.cuts = []
        client.most_cuts = {"words": 1, "characters": 0}[request.param]
        monkeypatch.setattr(Subwords, "encode", counted)
        yield client


@pytest.mark.parametrize("asked", [{"text": "a " * 300}, {"text": "a", "target": "a " * 300}])
def test_a_text_that_is_too_long_is_cut_once_at_most_and_leaves_the_model_free(client, asked):
    said = client.post("/api/runs/run/predict", json=asked)
    assert said.status_code == 413
    n_tokens = {1: "301", 0: "at least 301"}[client.most_cuts]
    assert f"has {n_tokens} tokens, but the model" in said.json()["error"]["message"]
    # a target comes with a text
    assert client.cuts == [True] * (client.most_cuts + ("target" in asked))


def test_a_text_that_is_answered_is_cut_while_the_model_is_free(client):
    assert client.post("/api/runs/run/predict", json={"text": "a b c"}).status_code == 200
    assert client.cuts
    assert all(client.cuts)
