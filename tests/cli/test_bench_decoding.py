"""regard bench decode: what it prints, and what it refuses."""

import json
import sys

import pytest

from regard.bench.decoding import DecodingCase, DecodingResult, random_model, sources
from regard.bench.decoding_worker import _regard
from regard.bench.run_decoding import RunCase, RunResult, run_decoding_text
from regard.cli import main
from regard.runs.trained import Trained
from regard.tasks.predictions import Answer, Prediction
from tests.factories import make_run

SMALL = ["bench", "decode", "--size", "tiny", "--sentences", "3", "--batch", "2", "--length", "3",
         "--turns", "1"]  # fmt: skip


@pytest.mark.processes
def test_without_peers_it_gives_our_speed_as_a_table_and_as_json(capsys):
    assert main([*SMALL, "--peers", "none"]) == 0
    table = capsys.readouterr().out
    assert "3 sentences of 3 to 3 tokens, 2 at a time, beam 4." in table
    assert main([*SMALL, "--peers", "none", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens_per_s"]["regard"] > 0
    assert report["ratio"] == {}


def test_the_benchmark_measures_the_function_that_users_call(monkeypatch, tmp_path):
    called = []

    def noted(self, texts, **settings):
        called.append((type(self), len(texts), settings["search"].width))
        return [
            Prediction.of(text, [Answer("w4", 0.0, ("w00000004",))], note=None) for text in texts
        ]

    monkeypatch.setattr(Trained, "predict", noted)
    case = DecodingCase(size="tiny", n_sentences=2, batch=2, n_source=3, n_target=3)
    answers = _regard(random_model(case), case, tmp_path)(sources(case))
    assert answers == [[4], [4]]
    assert called == [(Trained, 2, 4)]


def test_predict_writes_as_many_tokens_as_the_benchmark_asks_for(tmp_path):
    case = DecodingCase(size="tiny", n_sentences=2, batch=2, n_source=3, n_target=5, n_tokens=40)
    answers = _regard(random_model(case), case, tmp_path)(sources(case))
    assert [len(answer) for answer in answers] == [5, 5]
    assert all(2 < token < 40 for answer in answers for token in answer)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("bench") / "run")


def test_a_run_is_measured_by_what_users_call(run, tmp_path, monkeypatch, capsys):
    texts, asked = tmp_path / "texts.txt", []
    texts.write_text("a b c\nd e\nc\n")
    predict = Trained.predict

    def noted(self, given, **settings):
        asked.append((given, settings["search"].width))
        return predict(self, given, **settings)

    monkeypatch.setattr(Trained, "predict", noted)
    told = ["bench", "decode", "--run", str(run), "--texts", str(texts), "--peers", "none",
            "--turns", "1", "--threads", "1", "--sentences", "2"]  # fmt: skip
    assert main([*told, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    # to warm up, for the comparison, and in the one turn
    assert asked == [(["a b c", "d e"], 5)] * 3
    assert report["n_texts"] == 2
    assert report["search"] == "plain: no search is recorded on a cpu"
    assert report["texts_per_s"]["regard"] == pytest.approx(2 / report["seconds"]["regard"][0])
    assert main([*told, "--beam", "2"]) == 0
    assert "2 texts, beam 2, float32 on cpu, 1 thread; plain" in capsys.readouterr().out
    assert asked[-1] == (["a b c", "d e"], 2)


def test_a_ratio_to_ctranslate2_is_the_median_of_the_turns(run):
    seconds = {"regard": [2.0, 4.0, 8.0], "ctranslate2": [1.0, 3.0, 8.0]}
    worked = {"regard": [2.0, 2.0, 2.0], "ctranslate2": [1.0, 1.0, 2.0]}
    result = RunResult(RunCase(run=run), 10, seconds, worked, {"ctranslate2": 0.9}, "plain")
    assert result.ratios(seconds) == {"regard": 0.75, "ctranslate2": 1.0}
    assert result.as_dict()["texts_per_s"] == {"regard": 2.5, "ctranslate2": 10 / 3}
    table = [line.split() for line in run_decoding_text(result).splitlines()[-2:]]
    assert table == [
        ["regard", "2", "0.75", "×", "0.50", "×"],
        ["ctranslate2", "3", "1.00", "×", "1.00", "×", "90.0", "%"],
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--run", "RUN", "--size", "base"], "--run measures a run on texts with their own ends"),
        (["--run", "RUN", "--texts", "EMPTY"], "empty.txt' holds no text. Give --texts FILE"),
        (["--run", "RUN", "--peers", "huggingface"], "Known: ctranslate2."),
        (["--texts", "EMPTY"], "--texts are for a run. Add --run, or leave them out."),
    ],
)
def test_what_cannot_be_measured_together_is_refused(given, said, run, tmp_path, capsys):
    (tmp_path / "empty.txt").touch()
    names = {"RUN": str(run), "EMPTY": str(tmp_path / "empty.txt")}
    assert main(["bench", "decode", *(names.get(part, part) for part in given)]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_size_or_peer_is_refused_with_the_nearest(capsys):
    assert main([*SMALL, "--peers", "hugingface"]) == 2
    assert "huggingface" in capsys.readouterr().err
    assert main(["bench", "decode", "--size", "bse"]) == 2
    assert "base" in capsys.readouterr().err


def test_a_peer_that_is_not_installed_names_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main([*SMALL, "--peers", "huggingface"]) == 2
    assert "regard[bench]" in capsys.readouterr().err


def test_a_ratio_is_the_median_of_the_turns_own_ratios():
    case = DecodingCase(n_sentences=10, n_target=6)
    seconds = {"regard": [1.0, 2.0, 12.0], "huggingface": [2.0, 6.0, 12.0]}
    result = DecodingResult(case, seconds)
    assert result.ratio("huggingface") == 2.0
    assert result.tokens_per_s == {"regard": 30.0, "huggingface": 10.0}
    assert result.as_dict()["ratio"] == {"huggingface": 2.0}
