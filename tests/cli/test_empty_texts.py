"""An empty text has one answer, wherever it is asked: shell, Python, server, evaluation."""

import json
import math

import pytest

import regard
from regard.cli import main
from regard.decoding import Beam, Greedy, Limits, Sampling
from regard.errors import DataError
from regard.runs.evaluation import answer
from regard.runs.trained import Request
from regard.serving import api
from regard.serving.registry import open_runs
from regard.tasks.predictions import AnswerOptions
from tests.captioning import trained_captioner
from tests.factories import ENCODER, TRANSFORMER, make_run

LANGUAGE = """\
kind = "language_model"
rows = "{rows}"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 1"""
GPT2 = 'kind = "gpt2"\nd_model = 16\nn_heads = 2\nd_hidden = 16\nn_layers = 1'

ANSWERS = {
    "transformer": TRANSFORMER,
    "separated": LANGUAGE.format(rows="separated"),
    **{task: ENCODER.format(task=task) for task in ("words", "tags", "label")},
}
"""Models that answer a text; of an empty one there is nothing to answer."""
CONTINUES = {
    "running": LANGUAGE.format(rows="running"),
    "continued": LANGUAGE.format(rows="continued"),
    "gpt2": GPT2,
}
"""Models that go on with a text; an empty one is its beginning."""
BLANK = ("", "  ", "\t")
SHORT = Beam(width=5, limits=Limits(max_tokens=4))


@pytest.fixture(scope="module", params=ANSWERS)
def run(request, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("empty") / request.param, model=ANSWERS[request.param])


@pytest.fixture(scope="module", params=CONTINUES)
def language_run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("continues") / request.param
    return make_run(folder, model=CONTINUES[request.param])


def _shell(capsys, run, *words):
    assert main(["predict", str(run), *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("text", BLANK)
def test_python_the_shell_and_the_server_give_an_empty_text_an_empty_answer(run, text, capsys):
    (said,) = regard.load(run, device="cpu").predict([text])
    assert (said.source, said.text, said.score, said.tokens) == (text, "", 0.0, ())
    assert (said.n_best, said.note, said.candidates) == ((), None, ())
    (row,) = _shell(capsys, run, "--text", text)
    assert (row["source"], row["text"], row["score"], row["tokens"]) == (text, "", 0.0, [])
    told = api.prepare_prediction(open_runs([run], device="cpu"), run.name, text)()
    assert (told["source"], told["note"]) == (text, None)
    assert told["answers"] == [{"text": "", "score": 0.0, "record": None, "words": []}]


@pytest.mark.parametrize("search", [SHORT, Greedy(), Sampling(n_samples=3)])
def test_an_empty_text_among_others_keeps_its_place_whatever_the_search(search, tmp_path):
    trained = regard.load(make_run(tmp_path / "run"), device="cpu")
    wanted = [one.text for one in trained.predict(["a b", "c"], search=search)]
    said = trained.predict(["", "a b", " ", "c", ""], search=search)
    assert [one.source for one in said] == ["", "a b", " ", "c", ""]
    assert [said[place].text for place in (0, 2, 4)] == ["", "", ""]
    assert said[1].text == wanted[0]


def test_an_empty_text_begins_a_text_where_a_run_goes_on_with_texts(language_run, capsys):
    trained = regard.load(language_run, device="cpu")
    (said,) = trained.predict([""], search=SHORT)
    assert said.n_best, "it was searched for"
    (row,) = _shell(capsys, language_run, "--text", "", "--max-tokens", "4")
    assert row["text"] == said.text
    assert row["score"] == pytest.approx(said.score)
    (answered,) = answer(trained, [""], AnswerOptions(SHORT)).texts
    assert answered == " ".join(said.text.splitlines())
    registry = open_runs([language_run], device="cpu")
    told = api.prepare_prediction(registry, language_run.name, "", max_tokens=4, n_best=1)()
    (first,) = told["answers"]
    assert first["text"] == said.text
    assert first["score"] == pytest.approx(said.score)
    assert first["record"] is None, "nothing was read that could be looked at"


def test_an_empty_address_is_a_picture_that_cannot_be_read(tmp_path, capsys):
    run = trained_captioner(tmp_path)
    (said,) = regard.load(run, device="cpu").predict([""])
    assert said.text == ""
    assert math.isnan(said.score)
    assert said.note.startswith("picture: expected the address of a picture, got an empty one.")
    assert main(["predict", str(run), "--text", "", "--text", "scene:3-1", "--json"]) == 1
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["text"], row["note"]) == ("", said.note)


WISHES = {"prefix": "a b", "must_contain": ("a b",)}


@pytest.mark.parametrize("wish", WISHES)
def test_wishes_for_the_answer_to_an_empty_text_are_not_ignored_in_silence(wish, run):
    asked = Request("", **{wish: WISHES[wish]})
    (said,) = regard.load(run, device="cpu").predict([asked])
    assert (said.text, said.score) == ("", 0.0)
    assert said.note == "the text is empty, and so is its answer: it has no prefix and no phrases"


def test_a_prefix_is_told_to_be_left_out_for_each_empty_line_of_a_file(tmp_path, capsys):
    run, file = make_run(tmp_path / "run"), tmp_path / "texts"
    file.write_text("a b\n\nc\n")
    assert main(["predict", str(run), str(file), "--prefix", "a"]) == 0
    found = capsys.readouterr()
    assert found.out.splitlines()[1] == ""
    assert "line 2: the text is empty, and so is its answer" in " ".join(found.err.split())
    assert "1: the text is empty" not in found.err


def test_no_tokens_are_counted_for_an_empty_text(run):
    found = answer(regard.load(run, device="cpu"), ["", " "])
    assert (found.texts, found.tokens) == (("", ""), 0)


def test_to_look_at_an_empty_text_is_refused_by_every_door(run, capsys):
    told = "the text is empty; there is nothing to look at. Give a sentence."
    assert main(["look", str(run), ""]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    with pytest.raises(DataError, match=told):
        regard.load(run, device="cpu").look(" ")


def test_the_server_refuses_to_look_at_an_answer_to_an_empty_text(tmp_path):
    run = make_run(tmp_path / "run")
    with pytest.raises(DataError, match="nothing to look at"):
        api.prepare_prediction(open_runs([run], device="cpu"), "run", "", target="a")()
