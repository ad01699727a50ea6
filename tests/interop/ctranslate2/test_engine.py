"""The engine: made once, kept or not, told in reports, and refused where it lacks something."""

import json

import pytest
from starlette.testclient import TestClient

import regard
from regard.cli import main
from regard.decoding import Beam, Forbidden, Limits, Sampling
from regard.errors import RunError, SettingError
from regard.interop.ctranslate2 import CTranslate2
from regard.interop.ctranslate2.engine import FOLDER
from regard.serving.app import build_app
from regard.serving.registry import open_runs
from regard.tasks.predictions import Request
from tests.interop.ctranslate2.families import ENCODER_DECODER, LANGUAGE_MODEL, TEXTS, made


def test_the_model_is_made_once_and_anew_for_other_weights(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    regard.load(run, device="cpu", engine=CTranslate2())
    model = run / FOLDER / "model.bin"
    first = model.stat().st_mtime_ns
    regard.load(run, device="cpu", engine=CTranslate2(quantization="int8"))
    assert model.stat().st_mtime_ns == first
    made(run, ENCODER_DECODER + 'norm = "pre_norm"')
    found = regard.load(run, device="cpu", engine=CTranslate2())
    assert model.stat().st_mtime_ns > first
    search = regard.decoding.Greedy(limits=Limits(max_tokens=8))
    ours = regard.load(run, device="cpu")
    assert [one.text for one in found.predict(TEXTS, search=search)] == [
        one.text for one in ours.predict(TEXTS, search=search)
    ]


def test_a_temporary_model_leaves_the_run_as_it_is(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    before = sorted(path.name for path in run.rglob("*"))
    regard.load(run, device="cpu", engine=CTranslate2(cache="temporary"))
    assert sorted(path.name for path in run.rglob("*")) == before


def test_predict_names_the_engine_and_says_how_its_answers_compare(tmp_path, capsys):
    run = made(tmp_path / "run", ENCODER_DECODER)
    words = ["predict", str(run), "--text", TEXTS[0], "--max-tokens", "6", "--json", "--engine"]
    assert main([*words, "ctranslate2:quantization=int8,cache=temporary"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["engine"] == "ctranslate2:quantization=int8,cache=temporary"
    assert "answers to texts of the run's own data are those of torch" in said.err


def test_n_best_lists_are_ordered_by_the_score_of_predict(tmp_path):
    run = made(tmp_path / "run", LANGUAGE_MODEL)
    engine = regard.load(run, device="cpu", engine=CTranslate2(cache="temporary"))
    search = Beam(width=4, n_best=4, limits=Limits(max_tokens=6))
    for one in engine.predict(TEXTS[:3], search=search):
        scores = [answer.score for answer in one.n_best]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert len({answer.tokens for answer in one.n_best}) == 4


def test_a_text_has_its_own_limit_whatever_else_is_in_the_batch(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    engine = regard.load(run, device="cpu", engine=CTranslate2(cache="temporary"))
    search = Beam(width=3, limits=Limits(max_tokens=20, beyond_source=1))
    together = engine.predict(TEXTS, search=search)
    alone = [engine.predict([text], search=search)[0] for text in TEXTS]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    for text, one in zip(TEXTS, together, strict=True):
        assert len(one.tokens) <= engine.length(text) + 1


def test_what_the_engine_lacks_is_refused_in_python_too(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    engine = regard.load(run, device="cpu", engine=CTranslate2(cache="temporary"))
    for request, search, message in (
        (TEXTS[0], Sampling(), "draws by numbers of its own"),
        (TEXTS[0], Beam(rules=[Forbidden([5])]), "the rules against repetitions"),
        (Request(TEXTS[0], prefix="the"), Beam(), "a prefix of answers"),
        (Request(TEXTS[0], must_contain=["the"]), Beam(), "phrases to hold of answers"),
    ):
        with pytest.raises(SettingError, match=message):
            engine.predict([request], search=search)
    with pytest.raises(SettingError, match="several runs write together only with torch"):
        regard.load(run, run, device="cpu", engine=CTranslate2())


def test_an_engine_that_answers_otherwise_is_refused(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    regard.load(run, device="cpu", engine=CTranslate2())
    other = made(tmp_path / "other", ENCODER_DECODER + 'feed_forward = "gelu"')
    regard.load(other, device="cpu", engine=CTranslate2())
    # a damaged cache: the hash is right, the weights are another model's
    (other / FOLDER / "model.bin").replace(run / FOLDER / "model.bin")
    with pytest.raises(RunError, match=r"--engine ctranslate2: (to .*but torch|its log-prob)"):
        regard.load(run, device="cpu", engine=CTranslate2())


def test_the_server_answers_by_the_engine_with_the_chance_of_every_word(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    asked = {"text": TEXTS[3], "max_tokens": 5, "n_best": 2}
    answers = {}
    for name, engine in (
        ("torch", None),
        ("ctranslate2:cache=temporary", CTranslate2(cache="temporary")),
    ):
        app = build_app(open_runs([run], device="cpu", engine=engine))
        client = TestClient(app, base_url="http://127.0.0.1:8000")
        assert client.get("/api/runs/run/info").json()["engine"] == name
        answers[name] = client.post("/api/runs/run/predict", json=asked).json()["answers"]
    mine, theirs = answers.values()
    assert [one["text"] for one in theirs] == [one["text"] for one in mine]
    for one, other in zip(theirs, mine, strict=True):
        assert [chance for _, chance in one["words"]] == pytest.approx(
            [chance for _, chance in other["words"]], abs=1e-4
        )
