"""What the server says is what Python says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from regard.attention import attend
from regard.attention.patterns.causal import CausalPattern
from regard.course.chapter_files import chapter
from regard.errors import RunError
from regard.inspecting import save_record
from regard.inspecting.lessons import worked
from regard.inspecting.map_summary import summarise_map
from regard.inspecting.panels import View
from regard.inspecting.record import Attention, Record
from regard.inspecting.statistics import head_statistics
from regard.inspecting.token_labels import Tokens
from regard.plots.colours import DARK, LIGHT
from regard.serving import build_app
from regard.serving.app import PAGE_TYPES, page_files
from regard.serving.atlas import profile
from regard.serving.registry import names_of, open_runs
from tests.factories import make_run
from tests.serving.serving import TEXTS

TEXT = "a dog ate"
WORKED = {
    "queries": [[1.0]], "keys": [[4.0]], "W_O": [[1.0]],
    "heads": [{"W_Q": [[1.0]], "W_K": [[1.0]], "W_V": [[1.0]]}],
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(client):
    return client.post("/api/runs/first/predict", json={"text": TEXT}).json()["answers"]


def _tile(client, record, place, **asked):
    answer = client.get(f"/api/records/{record}/tiles/{place}", params=asked)
    kind = "<f4" if asked.get("type") == "float32" else "<f2"
    size = 256 * 256 * np.dtype(kind).itemsize
    if answer.status_code == 204:
        return answer, None, None
    values = np.frombuffer(answer.content[:size], kind).reshape(256, 256)
    return answer, values, np.frombuffer(answer.content[size:], "<f4")


def test_runs_and_their_facts(client, registry):
    said = client.get("/api/runs").json()
    assert [run["name"] for run in said["runs"]] == ["first", "second"]
    assert said["has_gold"] is True
    facts = client.get("/api/runs/first/info").json()
    model = registry.run("first").trained.loaded.model
    assert facts["parameters"] == sum(one.numel() for one in model.parameters())
    assert (facts["reads"], facts["longest"], facts["has_metrics"]) == ("texts", 48, True)
    assert 1 <= len(facts["examples"]) <= 4
    assert (facts["verb"], facts["is_ready"], facts["step"]) == ("Translate", True, None)


def test_answers_are_those_of_the_run_best_first(client, registry, answers):
    want = registry.run("first").trained.predict([TEXT])[0]
    assert answers[0]["text"] == want.text
    assert answers[0]["score"] == pytest.approx(want.score, abs=1e-6)
    assert len(answers) == 5
    scores = [one["score"] for one in answers]
    assert scores == sorted(scores, reverse=True)
    chances = [chance for _, chance in answers[0]["words"]]
    assert sum(map(np.log, chances)) == pytest.approx(answers[0]["log_probability"], abs=1e-4)


def test_the_weights_sent_are_the_record_s(client, registry, answers):
    record = registry.run("first").trained.look(TEXT)
    said = client.get(f"/api/records/{answers[0]['record']}").json()
    assert said["target"] == record.target
    for kind, one in record.attention.items():
        assert said["attention"][kind]["queries"]["pieces"] == list(one.queries.pieces)
        answer = client.get(f"/api/records/{answers[0]['record']}/weights/{kind}")
        shape = [int(size) for size in answer.headers["x-shape"].split(",")]
        sent = torch.from_numpy(np.frombuffer(answer.content, "<f4").reshape(shape).copy())
        for layer in range(shape[0]):
            for head in range(shape[1]):
                torch.testing.assert_close(sent[layer, head], record.weights(kind, layer, head))


def test_an_answer_of_one_s_own_is_looked_at(client, registry):
    asked = {"text": TEXT, "target": "the food"}
    (said,) = client.post("/api/runs/first/predict", json=asked).json()["answers"]
    assert said["text"] == "the food"
    record = client.get(f"/api/records/{said['record']}").json()
    assert record["attention"]["cross"]["queries"]["names"] == ["the", "food", "<eos>"]
    panel = registry.run("first").trained.look(TEXT, "the food").panel(View())
    assert list(panel.queries) == record["attention"]["cross"]["queries"]["names"]


def test_answers_end_where_somebody_says(client):
    asked = {"text": TEXT, "max_tokens": 3}
    found = client.post("/api/runs/first/predict", json=asked).json()["answers"]
    assert max(len(one["words"]) for one in found) == 3


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must lie between 1 and 47, the model's limit, got 0."),
        ({"max_tokens": 48}, "max_tokens must lie between 1 and 47, the model's limit, got 48."),
        (
            {"max_tokens": 3, "target": "food"},
            "target is the answer to look at, so max_tokens 3 limits none.",
        ),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(client, wish, message):
    said = client.post("/api/runs/first/predict", json={"text": TEXT, **wish})
    assert said.status_code == 400
    assert message in said.json()["error"]["message"]


def test_an_object_is_read_by_the_keys_that_the_run_learned_from(tmp_path):
    run = make_run(tmp_path / "papers", *TEXTS)
    recipe = (run / "recipe.toml").read_text()
    documents = '{ name = "documents", path = "x", source = ["title", "body"] }'
    learned = re.sub(r'train = \{ name = "copy", count = \d+ \}', f"train = {documents}", recipe)
    assert learned != recipe
    (run / "recipe.toml").write_text(learned)
    app = build_app(open_runs([run], device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        said, plain, broken = (
            client.post("/api/runs/papers/predict", json={"text": text})
            for text in (
                '{"body": ["ate", "food"], "title": "a dog"}',
                "a dog ate food",
                '{"b": 1}',
            )
        )
    assert said.json() == plain.json()
    assert plain.json()["source"] == "a dog ate food"
    assert broken.status_code == 400
    assert "the text has no 'title'; it has b." in broken.json()["error"]["message"]


def test_a_tile_is_the_dense_matrix_and_says_what_is_masked(client, registry, answers):
    name = answers[0]["record"]
    kept = registry.records.get(name)
    for kind in ("cross", "decoder"):
        want = kept.weights(kind, 1, 0).numpy()
        answer, values, allowed = _tile(client, name, f"{kind}/1/0/0/0/0", type="float32")
        inside = values[: want.shape[0], : want.shape[1]]
        np.testing.assert_allclose(np.maximum(inside, 0), want, atol=1e-6)
        assert np.isnan(values[want.shape[0] :]).all()
        assert answer.headers["x-exact"] == "true"
        assert float(answer.headers["x-max"]) == pytest.approx(want.max(), abs=1e-6)
        assert (inside >= 0).sum(1).tolist() == allowed[: want.shape[0]].tolist()
    # what is decoded later is hidden, and hidden is not nought
    assert (inside[0, 1:] == -1).all()


def test_a_tile_travels_in_halves_unless_asked_otherwise(client, answers):
    place = f"{answers[0]['record']}"
    _, half, _ = _tile(client, place, "cross/0/mean/0/0/0")
    _, whole, _ = _tile(client, place, "cross/0/mean/0/0/0", type="float32")
    np.testing.assert_allclose(half.astype("f4"), whole, atol=5e-4)


def test_the_profile_is_the_mass_of_each_key(client, registry, answers):
    name = answers[0]["record"]
    said = client.get(f"/api/records/{name}/profile/encoder/0/1", params={"far": 2}).json()
    weights = registry.records.get(name).weights("encoder", 0, 1)
    assert said["received"] == pytest.approx(weights.sum(0).tolist(), abs=1e-5)
    assert said["is_exact"] is True
    for query, key, weight in said["links"]:
        assert abs(query - key) > 2
        assert weight == pytest.approx(float(weights[query, key]), abs=1e-6)
    key, most = said["heaviest"][0]
    assert key == int(weights.sum(0).argmax())
    assert most == pytest.approx(float(weights.sum(0).max()), abs=1e-5)


def test_between_two_texts_no_link_is_too_near(client, registry, answers):
    name = answers[0]["record"]
    said = client.get(f"/api/records/{name}/profile/cross/0/1", params={"far": 40}).json()
    # the end token is left out
    weights = registry.records.get(name).weights("cross", 0, 1)[:, :-1]
    assert said["far"] == -1
    assert said["links"][0][2] == pytest.approx(float(weights.max()), abs=1e-6)


def test_the_keys_that_receive_most_are_single_keys_however_many_there_are():
    n = 2500
    x = torch.randn(1, 1, n, 4)
    names = Tokens.numbered("place", n)
    seen = attend(x, x, x).map
    one = Attention(names, names, (seen,), "query (text)", "key (text)", "scaled_dot, soft")
    said = profile(Record("long", "", {"encoder": one}), "encoder", 0, 0, far=64, every=500)
    whole = summarise_map(seen, 0, every=500).received
    assert len(said["received"]) < n
    assert [key for key, _ in said["heaviest"]] == whole.argsort()[::-1][:20].tolist()


def test_the_statistics_of_heads_are_python_s(client, registry, answers):
    name = answers[0]["record"]
    said = client.get(f"/api/records/{name}/statistics/cross").json()
    want = head_statistics(registry.record(name), "cross")
    assert [(one["layer"], one["head"]) for one in said["heads"]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert [one["entropy"] for one in said["heads"]] == pytest.approx([one.entropy for one in want])
    assert said["heads"][0]["distance"] is None


def test_a_saved_record_is_served_by_tiles_that_fit_together(tmp_path):
    n = 300
    x = torch.randn(1, 2, n, 8)
    names = Tokens.numbered("place", n)
    seen = attend(x, x, x, CausalPattern()).map
    one = Attention(names, names, (seen,), "query (text)", "key (text)", "scaled_dot, soft")
    save_record(Record("long", "", {"encoder": one}), tmp_path / "long.safetensors")
    registry = open_runs([], saved=[tmp_path / "long.safetensors"])
    with TestClient(build_app(registry), base_url="http://localhost") as client:
        assert client.get("/api/runs").json()["records"] == ["long.safetensors"]
        size = client.get("/api/records/long.safetensors/atlas/encoder/0").json()
        assert (size["n_queries"], size["max_zoom"]) == (n, 1)
        whole = np.zeros((512, 512), "f4")
        for y, x in [(0, 0), (1, 0), (1, 1)]:
            _, values, _ = _tile(
                client, "long.safetensors", f"encoder/0/1/1/{x}/{y}", type="float32"
            )
            whole[256 * y : 256 * (y + 1), 256 * x : 256 * (x + 1)] = values
        empty, _, _ = _tile(client, "long.safetensors", "encoder/0/1/1/1/0")
    assert empty.status_code == 204
    np.testing.assert_allclose(whole[:n, :n].clip(min=0), seen.dense()[0, 1].numpy(), atol=1e-5)


def test_curves_are_the_lines_of_metrics_jsonl(client):
    charts = {
        one["title"]: one["series"] for one in client.get("/api/runs/first/curves").json()["charts"]
    }
    assert charts["Loss, nats per target token"] == {
        "training": [[1.0, 4.0], [2.0, 3.5]], "validation": [[2.0, 3.75]]
    }  # fmt: skip
    assert charts["Gradient norm"] == {"norm": [[1.0, 2.0]]}
    assert charts["BLEU, greedy"] == {}
    assert client.get("/api/runs/second/curves").json()["updates"] == 0


def test_the_colours_are_those_of_python_s_figures(client):
    said = client.get("/api/colours").json()
    assert said["light"]["weights"] == list(LIGHT)
    assert said["dark"]["weights"] == list(DARK)
    for theme in ("light", "dark"):
        # no difference looks like the ground of weights
        assert len(said[theme]["differences"]) % 2 == 1


def test_the_worked_example_begins_with_the_numbers_of_explain(client):
    assert client.get("/api/worked").json()["steps"] == json.loads(json.dumps(worked()))


def test_a_chapter_of_the_course_is_read_in_any_language_and_an_unknown_one_is_refused(client):
    told = client.get("/api/course?language=zh").json()
    assert told["languages"] == {"en": "English", "zh": "中文"}
    assert told["chapters"][0]["title"] == "1 · 三个词，手算一遍"
    steps = client.get("/api/course/scores").json()["steps"]
    assert steps[0]["text"].startswith("# 2 · ")
    assert [step["is_code"] for step in steps[:2]] == [False, True]
    refused = client.get("/api/course/11/outputs")
    assert refused.status_code == 404
    assert "expected a chapter from 1 to 10, got 11" in refused.json()["error"]["message"]


@pytest.mark.processes
def test_a_chapter_runs_in_a_process_of_its_own(client):
    outputs = client.get("/api/course/1/outputs").json()
    assert "[10., 11.,  6.]" in "".join(one["printed"] for one in outputs)
    assert [set(one) for one in outputs] == [{"printed", "picture"}] * len(chapter(1).code)


@pytest.mark.parametrize(
    ("asked", "status", "kind", "says"),
    [
        (("GET", "/api/runs/frist/info", None), 404, "UnknownChoice", "first"),
        (("GET", "/api/records/none", None), 404, "UnknownChoice", "not kept"),
        (("GET", "/nowhere.js", None), 404, "UnknownChoice", "nowhere.js"),
        (("POST", "/api/runs/first/predict", {"text": "a", "beam": 3}), 422, "bad_request", "beam"),
        (
            ("POST", "/api/runs/first/predict", {"txt": "a"}),
            422,
            "bad_request",
            "serve: body.text: the key is missing. Give it; body.txt: there is no such key. Did "
            "you mean 'text'? /openapi.json lists the keys.",
        ),
        (("POST", "/api/worked", {"head": []}), 422, "bad_request", "Did you mean 'heads'?"),
        (
            ("POST", "/api/worked", {**WORKED, "heads": [{**WORKED["heads"][0], "W": []}]}),
            422,
            "bad_request",
            "serve: body.heads.0.W: there is no such key. Take it out; /openapi",
        ),
        (("POST", "/api/runs/first/predict", {"text": "a" * 90}), 413, "LengthError", "at most 48"),
        (("POST", "/api/runs/first/predict", {"text": "", "n_best": 9}), 422, "bad_request", "n"),
        (("POST", "/api/runs/first/caption", None), 400, "SettingError", "reads texts"),
        (("GET", "/api/runs/first/caption/0", None), 400, "SettingError", "reads texts"),
        (("POST", "/api/worked", {**WORKED, "temperature": 0}), 422, "bad_request", "temperature"),
        (("POST", "/api/worked", {**WORKED, "queries": [["inf"]]}), 422, "bad_request", "finite"),
        (("POST", "/api/worked", {**WORKED, "queries": [[1e308]]}), 400, "SettingError", "large"),
        (("DELETE", "/api/runs", None), 405, "bad_request", "DELETE"),
        (
            ("POST", "/predict", {"text": "a"}),
            405,
            "bad_request",
            "serve: POST /predict: Method Not Allowed. /openapi.json lists the addresses.",
        ),
    ],
)  # fmt: skip
def test_every_mistake_has_one_shape_and_says_what_to_do(client, asked, status, kind, says):
    method, path, body = asked
    answer = client.request(method, path, json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert answer.json()["error"]["kind"] == kind
    assert says in answer.json()["error"]["message"]
    assert "--" not in answer.json()["error"]["message"], "an option of the command line"


def test_health_metrics_and_openapi(client):
    assert client.get("/health").json()["status"] == "good"
    assert 'regard_requests_total{route="/health",status="200"}' in client.get("/metrics").text
    paths = client.get("/openapi.json").json()["paths"]
    assert "/api/runs/{run}/predict" in paths
    # FastAPI's own pages would load scripts from elsewhere
    assert client.get("/redoc").status_code == 404


def test_every_file_of_the_page_is_served_with_a_type_that_browsers_take(client):
    for address in page_files():
        answer = client.get(f"/{address}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == PAGE_TYPES[f".{address.rsplit('.')[-1]}"]
    assert client.get("/").text.startswith("<!doctype html>")


def test_runs_of_one_name_are_told_apart(tmp_path):
    assert names_of([tmp_path / "a" / "run", tmp_path / "b" / "run"]) == ["a-run", "b-run"]


def test_a_name_that_another_run_has_already_is_made_longer(tmp_path):
    paths = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "a-run"]
    assert names_of(paths) == ["a-run", "b-run", f"{tmp_path.name}-a-run"]


def test_runs_that_no_name_tells_apart_are_refused():
    with pytest.raises(RunError, match="Rename its folder"):
        names_of([Path("/a/run"), Path("/b/run"), Path("/a-run")])


def test_answers_may_be_drawn_and_a_seed_repeats_them(client):
    asked = {
        "text": TEXT,
        "n_best": 2,
        "max_tokens": 6,
        "sampling": {"temperature": 1.5, "seed": 3},
    }
    first, again = (client.post("/api/runs/first/predict", json=asked).json() for _ in range(2))
    assert first["answers"] == again["answers"]
    other = {**asked, "sampling": {**asked["sampling"], "seed": 4}}
    drawn = client.post("/api/runs/first/predict", json=other).json()
    assert [one["text"] for one in drawn["answers"]] != [one["text"] for one in first["answers"]]


def test_a_temperature_of_nothing_is_refused(client):
    asked = {"text": TEXT, "sampling": {"temperature": 0}}
    answer = client.post("/api/runs/first/predict", json=asked)
    assert answer.status_code == 422
    assert "sampling.temperature" in answer.json()["error"]["message"]


def test_a_text_may_be_unlike_what_was_learned(client):
    said = client.post("/api/runs/first/familiarity", json={"text": "жжж жжж"}).json()
    assert "has no piece for" in said["unlike"]
    assert client.post("/api/runs/first/familiarity", json={"text": TEXT}).json() == {
        "unlike": None
    }
