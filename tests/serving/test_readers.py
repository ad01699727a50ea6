"""Runs that read and do not write, as the server tells of them."""

import math
import re

import pytest
import torch
from starlette.testclient import TestClient

from regard.serving import build_app
from regard.serving.api import info, prepare_prediction
from regard.serving.registry import open_runs
from tests.factories import ENCODER, make_run
from tests.serving.serving import make_readers


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """Runs that read and do not write."""
    registry = make_readers(tmp_path_factory.mktemp("readers"))
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.mark.parametrize("task", ["words", "tags", "label", "vectors"])
def test_a_run_that_only_reads_shows_where_it_looked(readers, task):
    said = readers.post(f"/api/runs/{task}/predict", json={"text": "a [MASK] ate"})
    assert said.status_code == 200, said.text
    name = said.json()["answers"][0]["record"]
    record = readers.get(f"/api/records/{name}").json()
    assert list(record["attention"]) == ["encoder"]
    assert readers.get(f"/api/records/{name}/weights/encoder").status_code == 200


def test_hidden_words_are_filled_in_and_vectors_say_nothing(readers):
    filled = readers.post("/api/runs/words/predict", json={"text": "a [MASK] ate"}).json()
    assert re.fullmatch(r"a .* ate", filled["answers"][0]["text"])
    assert "[MASK]" not in filled["answers"][0]["text"]
    chances = [one["filled"][0][1] for one in filled["answers"]]
    assert len(chances) == 5 and chances == sorted(chances, reverse=True)
    assert all(math.log(chance) == pytest.approx(one["score"], abs=1e-5)
               for one, chance in zip(filled["answers"], chances, strict=True))  # fmt: skip
    whole = readers.post("/api/runs/words/predict", json={"text": "a dog ate"}).json()
    assert [one["filled"] for one in whole["answers"]] == [[]] and whole["note"]
    silent = readers.post("/api/runs/vectors/predict", json={"text": "a dog ate"}).json()
    assert (silent["answers"][0]["text"], silent["answers"][0]["score"]) == ("", None)
    assert "writes nothing" in silent["note"]


def test_pieces_that_are_shown_alike_have_each_its_own_probability(tmp_path):
    texts = ["the dog and the cat"] * 5
    run = make_run(tmp_path / "bytes", *texts, kind="bpe", model=ENCODER.format(task="words"))
    registry = open_runs([run], device="cpu")
    loaded = registry.run("bytes").trained.loaded
    plain, spaced = loaded.target.encode("the the")
    liked = torch.zeros(len(loaded.target))
    liked[plain], liked[spaced] = 90.0, 89.0
    loaded.model.output.register_forward_hook(lambda _, __, logits: logits + liked)
    answers = prepare_prediction(registry, "bytes", "[MASK] dog ate", n_best=2)()["answers"]
    assert [one["text"] for one in answers] == ["the dog ate"] * 2
    for one in answers:
        ((word, probability),) = one["filled"]
        assert word == "the"
        assert math.log(probability) == pytest.approx(one["score"], abs=1e-5)
    assert answers[0]["score"] > answers[1]["score"] + 0.1


@pytest.mark.parametrize("task", ["words", "tags", "label", "vectors"])
def test_an_answer_that_a_run_does_not_read_is_refused(readers, task):
    asked = {"text": "a dog ate", "target": "dog"}
    said = readers.post(f"/api/runs/{task}/predict", json=asked)
    assert (said.status_code, said.json()["error"]["kind"]) == (400, "SettingError")
    assert said.json()["error"]["message"] == (
        "look: this run reads a text at once, and where it looks does not depend on an answer: a "
        "target would change nothing. Leave it out."
    )


@pytest.mark.parametrize("task", ["words", "tags", "label", "vectors"])
def test_a_run_that_writes_no_answers_has_no_longest_one(readers, task):
    said = readers.post(f"/api/runs/{task}/predict", json={"text": "a dog", "max_tokens": 3})
    assert (said.status_code, said.json()["error"]["kind"]) == (400, "SettingError")
    assert "of a length of its own, so max_tokens has no" in said.json()["error"]["message"]


def test_every_word_of_a_long_text_has_its_tag_and_what_is_written_freely_ends(tmp_path):
    tags = make_run(tmp_path / "tags", kind="words", max_len=512, model=ENCODER.format(task="tags"))
    writer = make_run(tmp_path / "writer", kind="words", max_len=512)
    registry, text = open_runs([tags, writer], device="cpu"), "a b c " * 150
    (said,) = prepare_prediction(registry, "tags", text, n_best=1)()["answers"]
    (want,) = registry.run("tags").trained.predict([text])
    assert len(want.tokens) == 450
    assert said["text"] == want.text
    assert len(said["filled"]) == 450
    usual = {name: info(registry, name)["usual_answer"] for name in ("tags", "writer")}
    assert usual == {"tags": None, "writer": 300}


@pytest.mark.parametrize("path", ["/api/gold/words", "/api/gold/words/0"])
def test_a_run_without_a_source_to_look_at_has_no_gold_alignments(readers, path):
    answer = readers.get(path)
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "SettingError"
    assert "words' looks at encoder" in answer.json()["error"]["message"]
    assert "Take a run that translates" in answer.json()["error"]["message"]
