"""Admission: what may wait for a worker, what is refused at once, and what needs no model."""

import time
from base64 import b64encode

import pytest

from regard.serving.prediction_schemas import MAX_TEXTS
from regard.serving.registry import open_runs
from regard.serving.run_service import ServiceSettings
from tests.captioning import draw, trained_captioner
from tests.factories import make_run
from tests.serving import clients
from tests.serving.services import held, serving
from tests.serving.serving import make_readers

TEXTS = ("a dog ate the food because it was hungry", "a b c", "the dog")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_runs([make_run(tmp_path_factory.mktemp("v1") / "run", *TEXTS, max_len=48)])


@pytest.fixture(scope="module")
def served(registry):
    with serving(registry) as served:
        yield served


@pytest.fixture
def predict(registry):
    return registry.run("run").trained.predict


def _waits(served, count):
    return clients.came(lambda: len(served.services.runs["run"].queue) == count)


@pytest.mark.parametrize(
    ("bounds", "texts"),
    [({"max_waiting": 2}, ["a", "b"]), ({"max_waiting_tokens": 5}, ["a b", "a"])],
)
def test_a_full_queue_is_told_at_once_and_without_the_model(registry, bounds, texts):
    with held(registry, ServiceSettings(**bounds)) as (served, model):
        model.hold()
        first = served.predict_in_thread("a")
        assert model.is_stepping.wait(clients.PATIENCE)
        waiting = served.predict_in_thread(texts)
        assert _waits(served, 2)
        steps = len(model.rows)
        began = time.monotonic()
        said = served.predict("c")
        taken = time.monotonic() - began
        assert said.status_code == 429
        assert int(said.headers["Retry-After"]) >= 1
        assert "texts of" in said.json()["error"]["message"]
        assert said.json()["error"]["kind"] == "queue_full"
        # far from the 50 ms of the promise only where the whole machine stands still
        assert taken < clients.PATIENCE
        assert len(model.rows) == steps
        model.goes_on.set()
        assert (first().status_code, waiting().status_code) == (200, 200)
        assert served.metric('regard_refused_total{reason="queue_full"}') == 1


def test_a_body_or_a_list_beyond_its_limit_is_refused(served):
    large = served.client.post(
        "/v1/predict", content=b" " * 2_000_001, headers={"Content-Type": "application/json"}
    )
    assert (large.status_code, large.json()["error"]["kind"]) == (413, "too_large")
    many = served.predict(["a"] * (MAX_TEXTS + 1))
    assert many.status_code == 422
    assert f"at most {MAX_TEXTS} items" in many.json()["error"]["message"]
    none = served.predict([])
    assert none.status_code == 422
    assert "at least 1 item" in none.json()["error"]["message"]


def test_an_empty_text_has_an_empty_answer_without_the_model(registry):
    with held(registry) as (served, model):
        model.hold()
        steps = len(model.rows)
        (answer,) = served.predict("  ").json()["answers"]
        assert (answer["text"], answer["tokens"], answer["finish_reason"]) == ("", [], "eos")
        assert len(model.rows) == steps


def test_a_text_that_is_too_long_is_refused_with_its_length_and_the_limit(served):
    said = served.predict("a " * 40)
    assert said.status_code == 422
    message = said.json()["error"]["message"]
    assert "the text has 81 tokens, but the model reads at most 48" in message
    assert "truncate" in message


def test_a_text_is_cut_only_where_the_request_says_so_and_the_answer_tells(served, predict):
    said = served.predict(["a " * 40, "a b"], truncate=True).json()["answers"]
    assert [one["truncated"] for one in said] == [True, False]
    assert said[0]["source_tokens"] == 48
    cut = ("a " * 40).strip()[:47]
    assert said[0]["text"] == predict([cut])[0].text


@pytest.mark.parametrize("on_long", ["skip", "split"])
def test_a_long_text_is_treated_as_the_verb_treats_it(served, predict, on_long):
    said = served.predict(["a " * 40, "a b"], on_long=on_long).json()["answers"]
    want = predict(["a " * 40, "a b"], on_long=on_long)
    assert [(one["text"], one["note"]) for one in said] == [(one.text, one.note) for one in want]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tempurature": 2}, "body.tempurature: there is no such key. Did you mean 'temperature'?"),
        ({"beam": 0}, "body.beam: Input should be greater than or equal to 1"),
        ({"beam": 2, "n_best": 3}, "n_best 3 needs a beam at least as wide, got beam 2"),
        ({"sample": True, "temperature": 0}, "body.temperature: Input should be greater than 0"),
        ({"sample": True, "top_p": 1.5}, "body.top_p: Input should be less than or equal to 1"),
        ({"top_k": 3}, "top_k is for answers that are drawn: add sample"),
        ({"sample": True, "beam": 3}, "so beam and length_penalty mean nothing"),
        ({"max_tokens": 99}, "max_tokens must lie between 1 and 47, the model's limit, got 99"),
        ({"must_contain": [["a"], ["b"]]}, "must_contain has 2 lists of phrases, but there are 1"),
        ({"pictures": ["aGk="]}, "give either texts or"),
        ({"timeout_ms": 0}, "body.timeout_ms: Input should be greater than or equal to 1"),
    ],
)
def test_a_field_that_does_not_fit_is_told_with_the_nearest_name_or_the_range(
    served, options, message
):
    said = served.predict("a b", **options)
    assert said.status_code == 422
    assert message in said.json()["error"]["message"]


def test_a_run_that_is_not_served_is_told_with_the_nearest(served):
    said = served.predict("a b", run="runn")
    assert said.status_code == 404
    assert "Did you mean 'run'?" in said.json()["error"]["message"]


def test_an_answer_is_no_longer_than_asked_and_says_why_it_ended(served, predict):
    said = served.predict(["a b", "the dog"], max_tokens=3).json()["answers"]
    assert [one["finish_reason"] for one in said] == ["length", "length"]
    assert all(len(one["tokens"]) == 3 for one in said)
    whole = served.predict("a b").json()["answers"][0]
    want = predict(["a b"])[0]
    assert whole["finish_reason"] == ("eos" if want.has_ended else "length")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"texts": "a"',
        b"[" * 100_000,
        b'{"texts": ' + b"[" * 5000,
        b"\xff\xfe",
        b"null",
        b"1e999",
    ],
)
def test_a_body_that_is_no_request_is_told(served, body):
    headers = {"Content-Type": "application/json"}
    said = served.client.post("/v1/predict", content=body, headers=headers)
    assert said.status_code == 422
    assert said.json()["error"]["message"].startswith("serve: body")


def test_a_packed_body_is_refused_before_it_is_unpacked(served):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    said = served.client.post("/v1/predict", content=b"\x1f\x8b", headers=headers)
    assert said.status_code == 415
    assert "not as gzip" in said.json()["error"]["message"]


@pytest.fixture(scope="module")
def captions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    run = trained_captioner(folder / "made").rename(folder / "pictures")
    with serving(open_runs([run], device="cpu")) as served:
        yield served


def test_pictures_are_captioned_as_bytes_and_as_base64(captions, tmp_path):
    draw(tmp_path / "scene.png", 1)
    content = (tmp_path / "scene.png").read_bytes()
    trained = captions.services.registry.run("pictures").trained
    want = trained.predict([str(tmp_path / "scene.png")])[0].text
    headers = {"Content-Type": "image/png"}
    raw = captions.client.post("/v1/predict?beam=5", content=content, headers=headers)
    assert raw.json()["answers"][0]["text"] == want
    coded = [b64encode(content).decode(), b64encode(b"no picture").decode()]
    said = captions.client.post("/v1/predict", json={"pictures": coded}).json()["answers"]
    # one that cannot be read fails alone, and its error names no path of this machine
    assert (said[0]["text"], said[0]["error"]) == (want, None)
    assert "'picture 2'" in said[1]["error"]["message"]
    assert "/" not in said[1]["error"]["message"].split("'picture 2'")[0]


@pytest.mark.parametrize(
    ("path", "content", "headers", "message"),
    [
        ("/v1/predict?beem=2", b"x", {"Content-Type": "image/png"}, "Did you mean 'beam'?"),
        ("/v1/predict", b"", {"Content-Type": "image/png"}, "no picture was sent"),
        ("/v1/predict", b'{"texts": "a"}', {"Content-Type": "application/json"}, "reads pictures"),
        ("/v1/predict", b'{"pictures": ["?"]}', {"Content-Type": "application/json"}, "no base64"),
    ],
)
def test_what_is_no_picture_is_told(captions, path, content, headers, message):
    said = captions.client.post(path, content=content, headers=headers)
    assert said.status_code == 422
    assert message in said.json()["error"]["message"]


def test_hidden_words_are_filled_in_with_their_candidates(tmp_path):
    registry = make_readers(tmp_path)
    with serving(open_runs([registry.run("words").trained.path], device="cpu")) as served:
        said = served.predict("a [MASK] ate", n_best=3).json()["answers"][0]
        want = registry.run("words").trained.predict(["a [MASK] ate"])[0]
        assert said["text"] == want.text
        assert len(said["candidates"][0]) == 3
        refused = served.predict("a [MASK] ate", alignments=True)
        assert refused.status_code == 422
        assert "alignments has no meaning" in refused.json()["error"]["message"]
